//! What a script's header says it is called with. The header is the one place where KEYS and ARGV have names; calls
//! are made by these names ([`super::call`]), so that none can be mixed up with its neighbour.

/// The names of a script's KEYS and ARGV, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// KEYS whatever the call.
    pub keys: Vec<&'static str>,
    /// KEYS of each of the things that the script takes many of.
    pub item_keys: Vec<&'static str>,
    /// ARGV whatever the call.
    pub args: Vec<&'static str>,
    /// ARGV of each of the things that the script takes many of.
    pub item_args: Vec<&'static str>,
    /// Modules that are made before the script's own text runs.
    pub uses: Vec<&'static str>,
    /// Modules that are made where they are first called.
    pub later: Vec<&'static str>,
    /// What it does with the data; `None` for a module.
    pub data: Option<Use>,
}

/// What a script does with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It only reads.
    Reads,
    /// It ends, acknowledges, takes back or shows what is stored already: however little room there is.
    Always,
    /// It writes little, by somebody's wish: refused 4 % above the bound.
    Writes,
    /// It takes in what comes from outside, so that there is more afterwards: refused where there is no room.
    Grows,
}

impl Header {
    /// Reads the comment that a script begins with: `KEYS list meta, per gift: id lock`, ARGV in the same way, and `DATA writes`.
    /// A line goes on behind three blanks; behind five a name is explained.
    pub fn read(text: &'static str) -> Result<Header, String> {
        let lines: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("--")).collect();
        let (keys, item_keys) = listed(&lines, "KEYS")?;
        let (args, item_args) = listed(&lines, "ARGV")?;
        let modules = |what| listed(&lines, what).map(|(names, _)| names).unwrap_or_default();
        let (uses, later) = (modules("USES"), modules("LATER"));
        let data = lines.iter().find_map(|line| line.strip_prefix(" DATA "));
        let data = data.map(|words| match words {
            "reads" => Ok(Use::Reads),
            "writes, always" => Ok(Use::Always),
            "writes" => Ok(Use::Writes),
            "writes, grows" => Ok(Use::Grows),
            other => Err(format!("DATA is reads, writes, writes, grows or writes, always, and not {other}")),
        });
        Ok(Header { keys, item_keys, args, item_args, uses, later, data: data.transpose()? })
    }

    /// The code of `text` as Redis runs it: without the lines that only comment, and with numbers in place of names. `KEYS.meta`
    /// is `KEYS[4]`, and `ARGV.body[n]` that of the nth of the things that the script takes many of. ITEM_COUNT says how many they
    /// are, FIRST_ITEM_KEY and LAST_ITEM_KEY where their KEYS begin and end: behind them may be those of rankings (`lua/totals/rankings.lua`).
    /// For `STRINGS.meta` see [`Header::strings`].
    pub fn numbered(&self, text: &str) -> Result<String, String> {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        let code: String = code.flat_map(|line| [line, "\n"]).collect();
        let code = number(&code, "KEYS", &self.keys, &self.item_keys)?;
        let named = self.named_strings(&code);
        let code = number(&code, "STRINGS", &named, &self.item_keys)?;
        let code = number(&code, "ARGV", &self.args, &self.item_args)?;
        let count = format!("((#ARGV - {}) / {})", self.args.len(), self.item_args.len());
        let last = match self.item_keys.len() {
            0 => self.keys.len().to_string(),
            each => format!("{} + {each} * {count}", self.keys.len()),
        };
        let code = code.replace("FIRST_ITEM_KEY", &(self.keys.len() + 1).to_string());
        Ok(code.replace("LAST_ITEM_KEY", &last).replace("ITEM_COUNT", &count))
    }

    /// Reads at once what is stored at those keys whose strings `code` names: `STRINGS.meta` is that of `KEYS.meta`, false where it
    /// is missing or of another type. Empty if `code` names none.
    pub fn strings(&self, code: &str) -> String {
        let mut keys: Vec<String> =
            self.named_strings(code).iter().map(|name| format!("KEYS.{name}")).collect();
        if self.item_keys.iter().any(|name| code.contains(&format!("STRINGS.{name}["))) {
            keys.push("unpack(KEYS, FIRST_ITEM_KEY, LAST_ITEM_KEY)".to_owned());
        }
        match keys.is_empty() {
            true => String::new(),
            false => format!("local STRINGS = redis.call('MGET', {})\n", keys.join(", ")),
        }
    }

    fn named_strings(&self, code: &str) -> Names {
        let is_named = |name: &&&str| {
            let behind = |at: (usize, &str)| code[at.0 + at.1.len()..].chars().next();
            let is_end = |next: Option<char>| !next.is_some_and(|it| it.is_alphanumeric() || it == '_');
            code.match_indices(&format!("STRINGS.{name}")).any(|at| is_end(behind(at)))
        };
        self.keys.iter().filter(is_named).copied().collect()
    }
}

/// `code` with the places of names behind `table` and a dot in place of them.
fn number(code: &str, table: &str, fixed: &[&str], each: &[&str]) -> Result<String, String> {
    let dotted = format!("{table}.");
    let mut parts = code.split(dotted.as_str());
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        let place = |names: &[&str]| names.iter().position(|it| *it == name);
        let (index, rest) = match (place(fixed), place(each), rest.strip_prefix('[')) {
            (Some(at), ..) => ((at + 1).to_string(), rest),
            (None, Some(at), Some(inner)) => {
                let (n, rest) = inner.split_once(']').ok_or_else(|| format!("{table}.{name}[ has no end"))?;
                (format!("{} * ({n} - 1) + {}", each.len(), fixed.len() + at + 1), rest)
            }
            _ => return Err(format!("the header has no {table}.{name}")),
        };
        out.extend([table, "[", &index, "]", rest]);
    }
    Ok(out)
}

type Names = Vec<&'static str>;

fn listed(lines: &[&'static str], what: &str) -> Result<(Names, Names), String> {
    let head = |line: &&'static str| line.strip_prefix(' ')?.strip_prefix(what);
    let at = lines
        .iter()
        .position(|line| head(line).is_some())
        .ok_or_else(|| format!("the header has no {what}"))?;
    let more = lines[at + 1..].iter().copied().filter(|line| !line.starts_with("     "));
    let more = more.take_while(|line| line.starts_with("   "));
    let (mut names, mut items, mut are_items) = (Names::new(), Names::new(), false);
    for word in lines[at..].iter().filter_map(head).take(1).chain(more).flat_map(str::split_whitespace) {
        match word {
            "per" => are_items = true,
            // Of what there are many: "per gift:".
            word if word.ends_with(':') => {}
            word if are_items => items.push(word),
            word => names.push(word.trim_end_matches(',')),
        }
    }
    let is_name = |name: &&str| {
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let all: Names = names.iter().chain(&items).copied().collect();
    for (at, name) in all.iter().enumerate() {
        if !is_name(name) || all[..at].contains(name) {
            return Err(format!("{what} has {name:?}, which is no name, or is there twice"));
        }
    }
    Ok((names, items))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "-- x: does\n--\n-- KEYS list\n--   meta, per gift: id lock\n--     id: of the gift\n-- ARGV now idle_ttl, per gift: head\n--   body\n-- DATA writes, grows\n";

    #[test]
    fn names_stand_in_lines_that_go_on_and_may_be_explained() {
        let header = Header::read(TEXT).unwrap();
        assert_eq!((&header.keys, &header.item_keys), (&vec!["list", "meta"], &vec!["id", "lock"]));
        assert_eq!((&header.args, &header.item_args), (&vec!["now", "idle_ttl"], &vec!["head", "body"]));
        assert_eq!(header.data, Some(Use::Grows));
        assert!(Header::read("-- KEYS\n-- ARGV\n-- DATA guesses\n").is_err());
        assert!(Header::read("-- KEYS a\n").is_err());
        for twice in ["-- KEYS a a\n-- ARGV\n", "-- KEYS a, per b: a\n-- ARGV\n", "-- KEYS A\n-- ARGV\n"] {
            assert!(Header::read(twice).is_err(), "{twice}");
        }
    }

    #[test]
    fn names_become_the_numbers_of_their_places() {
        let header = Header::read(TEXT).unwrap();
        let code = "-- KEYS.none\nf(KEYS.meta, KEYS.lock[n], ARGV.head[n + 1]) -- ARGV.now\n  -- more\nfor n = 1, ITEM_COUNT do";
        let run = "f(KEYS[2], KEYS[2 * (n - 1) + 4], ARGV[2 * (n + 1 - 1) + 3]) -- ARGV[1]\nfor n = 1, ((#ARGV - 2) / 2) do\n";
        assert_eq!(header.numbered(code).unwrap(), run);
        let items = header.numbered("unpack(KEYS, FIRST_ITEM_KEY, LAST_ITEM_KEY)").unwrap();
        assert_eq!(items, "unpack(KEYS, 3, 2 + 2 * ((#ARGV - 2) / 2))\n");
        assert!(header.numbered("KEYS.none").is_err());
        assert!(header.numbered("KEYS.id").is_err());
    }
}
