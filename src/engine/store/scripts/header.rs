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
    /// What it does with the data; none of a text that stands in front of scripts.
    pub data: Option<Use>,
}

/// What a script does with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It only reads.
    Reads,
    /// It ends, acknowledges, takes back or shows what is stored already: however little room there is.
    Always,
    /// It writes little, by somebody's wish: refused a twentieth above the bound.
    Writes,
    /// It takes in what comes from outside, so that there is more afterwards: refused where there is no room.
    Grows,
}

impl Header {
    /// Reads the comment that a script begins with: `KEYS 5 + 2 per gift:` and then as many lines, `1 list` or
    /// `1 list: what it is`. The name ends at the first of `,:;(`.
    pub fn read(text: &'static str) -> Result<Header, String> {
        let lines: Vec<&str> =
            text.lines().map_while(|line| line.strip_prefix("--")).map(str::trim).collect();
        let (keys, item_keys) = listed(&lines, "KEYS")?;
        let (args, item_args) = listed(&lines, "ARGV")?;
        let data = lines.iter().find_map(|line| line.strip_prefix("DATA "));
        let data = data.map(|words| match words {
            "reads" => Ok(Use::Reads),
            "writes, always" => Ok(Use::Always),
            "writes" => Ok(Use::Writes),
            "writes, grows" => Ok(Use::Grows),
            other => Err(format!("DATA is reads, writes, writes, grows or writes, always, and not {other}")),
        });
        Ok(Header { keys, item_keys, args, item_args, data: data.transpose()? })
    }
}

type Names = Vec<&'static str>;

fn listed(lines: &[&'static str], what: &str) -> Result<(Names, Names), String> {
    let is_head = |line: &&str| line.strip_prefix(what).is_some_and(|rest| rest.starts_with(' '));
    let at = lines.iter().position(is_head).ok_or_else(|| format!("the header has no {what}"))?;
    let numbers = lines[at].split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    let counts: Vec<usize> = numbers.take(2).collect();
    let fixed = *counts.first().ok_or_else(|| format!("{what} has no number"))?;
    let all = fixed + counts.get(1).copied().unwrap_or(0);
    let mut names = Names::with_capacity(all);
    for line in &lines[at + 1..] {
        if names.len() == all {
            break;
        }
        let Some((number, rest)) = line.split_once(' ') else { continue };
        match number.parse::<usize>() {
            Ok(number) if number == names.len() + 1 => {
                names.push(rest.split([',', ':', ';', '(']).next().unwrap_or_default().trim());
            }
            // A line of prose that goes on.
            Err(_) => {}
            Ok(number) => return Err(format!("{what} {number} stands where {} should", names.len() + 1)),
        }
    }
    if names.len() < all {
        return Err(format!(
            "{what} are not listed one by one: {all} are promised, {} are there",
            names.len()
        ));
    }
    let items = names.split_off(fixed);
    for list in [&names, &items] {
        if let Some(twice) = list.iter().enumerate().find(|(at, name)| list[..*at].contains(name)) {
            return Err(format!("{what} has {:?} twice", twice.1));
        }
    }
    Ok((names, items))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_where_their_explanation_begins() {
        let header = Header::read(
            "-- x: does\n--\n-- KEYS 1 + 1 per gift:\n--   1 list\n--   2 id: of the gift\n-- ARGV 2:\n--   1 now, ms; or\n--     prose\n--   2 idle ttl\n-- DATA writes, grows\n",
        );
        let header = header.unwrap();
        assert_eq!((header.keys, header.item_keys), (vec!["list"], vec!["id"]));
        assert_eq!((header.args, header.item_args), (vec!["now", "idle ttl"], vec![]));
        assert_eq!(header.data, Some(Use::Grows));
        assert!(Header::read("-- KEYS 0:\n-- ARGV 0:\n-- DATA guesses\n").is_err());
        assert!(Header::read("-- KEYS 1:\n--   1 a\n").is_err());
        assert!(Header::read("-- KEYS 2:\n--   1 a\n--   2 a\n-- ARGV 0:\n").is_err());
    }
}
