//! Laying file, environment and flags over the defaults, key by key.

use std::path::Path;

use toml::{Table, Value};

use super::{Config, ConfigError, DEFAULT};
use crate::spelling::nearest;

/// What the command line sets; each wins over file and environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--listen`
    pub listen: Option<String>,
    /// `--redis`
    pub redis: Option<String>,
    /// `--data-dir`
    pub data_dir: Option<String>,
    /// `--insecure`
    pub insecure: bool,
}

/// As the name of a file: what comes in on standard input.
pub const STDIN: &str = "-";

/// The configuration from the defaults, `file` ([`STDIN`] is none), the variables of `env` (all of them, in any order)
/// and `flags`. Every key is known and of the right type; [`Config::check`] and [`crate::app::check`] say the rest.
pub fn load(
    file: Option<&Path>,
    env: impl IntoIterator<Item = (String, String)>,
    flags: Flags,
) -> Result<Config, ConfigError> {
    let mut layers = Layers::defaults()?;
    if let Some(path) = file {
        let (text, shown) = match path == Path::new(STDIN) {
            true => (std::io::read_to_string(std::io::stdin()), "standard input".to_owned()),
            false => (std::fs::read_to_string(path), path.display().to_string()),
        };
        let text =
            text.map_err(|e| ConfigError(format!("the configuration file {shown} cannot be read: {e}")))?;
        layers.file(&text, &shown)?;
    }
    layers.env(env)?;
    layers.flags(flags)?;
    layers.config()
}

struct Layers {
    /// The defaults alone: which keys there are, and of which type.
    known: Table,
    merged: Table,
}

impl Layers {
    fn defaults() -> Result<Self, ConfigError> {
        let known: Table = DEFAULT.parse().map_err(|e| ConfigError(format!("the built-in defaults: {e}")))?;
        Ok(Layers { merged: known.clone(), known })
    }

    fn file(&mut self, text: &str, path: &str) -> Result<(), ConfigError> {
        // Not the error's own words: they quote the line, which may hold a key or a password.
        let table: Table = text.parse().map_err(|e: toml::de::Error| {
            let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            ConfigError(format!("{path} is not TOML: line {line}: {}", e.message()))
        })?;
        for (section, keys) in table {
            let Value::Table(keys) = keys else {
                let hint = self.hint_key(&section);
                return Err(ConfigError(format!("{path}: {section:?} stands outside of a section{hint}")));
            };
            self.table(&section, keys).map_err(|why| ConfigError(format!("{path}: {why}")))?;
        }
        Ok(())
    }

    /// Takes what a file says in one section, and in those below it.
    fn table(&mut self, section: &str, keys: Table) -> Result<(), String> {
        self.section(section)?;
        for (key, value) in keys {
            match value {
                Value::Table(keys) if !self.is_value(section, &key) => {
                    self.table(&format!("{section}.{key}"), keys)?;
                }
                value => self.set(section, &key, value)?,
            }
        }
        Ok(())
    }

    /// True when a table is the value of this key, or of one that it was probably meant to be, and no section.
    fn is_value(&self, section: &str, key: &str) -> bool {
        let Some(keys) = at(&self.known, section) else { return false };
        match keys.get(key) {
            Some(value) => value.is_array() || is_map(value),
            None => nearest(key, keys.iter().filter(|(_, v)| is_map(v)).map(|(k, _)| k.as_str())).is_some(),
        }
    }

    /// `TIPCAST_SECTION__KEY`; other variables are nobody's business here.
    fn env(&mut self, all: impl IntoIterator<Item = (String, String)>) -> Result<(), ConfigError> {
        for (name, text) in all {
            let Some((section, key)) = name.strip_prefix("TIPCAST_").and_then(|rest| rest.rsplit_once("__"))
            else {
                continue;
            };
            if section.is_empty() || key.is_empty() {
                continue;
            }
            // A section below another: TIPCAST_AUTH__TOKENS__ISSUER.
            let (section, key) = (section.to_ascii_lowercase().replace("__", "."), key.to_ascii_lowercase());
            self.section(&section)
                .and_then(|()| self.typed(&section, &key, text))
                .and_then(|value| self.set(&section, &key, value))
                .map_err(|why| ConfigError(format!("environment variable {name}: {why}")))?;
        }
        Ok(())
    }

    fn flags(&mut self, flags: Flags) -> Result<(), ConfigError> {
        let texts = [
            ("--listen", "http", "listen", flags.listen.map(Value::String)),
            ("--redis", "redis", "url", flags.redis.map(Value::String)),
            ("--data-dir", "embedded", "data_dir", flags.data_dir.map(Value::String)),
            ("--insecure", "http", "insecure", flags.insecure.then_some(Value::Boolean(true))),
        ];
        for (flag, section, key, value) in texts {
            let Some(value) = value else { continue };
            self.set(section, key, value).map_err(|why| ConfigError(format!("{flag}: {why}")))?;
        }
        Ok(())
    }

    fn config(self) -> Result<Config, ConfigError> {
        self.merged.try_into().map_err(|e| ConfigError(format!("the configuration: {e}")))
    }

    /// The text of a variable as a value of the type that the key's default has.
    fn typed(&self, section: &str, key: &str, text: String) -> Result<Value, String> {
        let default = at(&self.known, section).and_then(|keys| keys.get(key));
        match default {
            // Bytes may be written as a size.
            Some(Value::Integer(_)) if key == "max_memory" => {
                Ok(text.trim().parse().map_or(Value::String(text), Value::Integer))
            }
            Some(Value::Integer(_)) => {
                text.trim().parse().map(Value::Integer).map_err(|_| format!("{text:?} is not an integer"))
            }
            Some(Value::Boolean(_)) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "1" => Ok(Value::Boolean(true)),
                "false" | "0" => Ok(Value::Boolean(false)),
                _ => Err(format!("{text:?} is not true or false")),
            },
            Some(default) if is_map(default) => {
                let table: Result<Table, _> = format!("map = {text}").parse();
                let map = table.ok().and_then(|mut table| table.remove("map")).filter(Value::is_table);
                map.ok_or_else(|| "it is no TOML table, such as { EUR = 1 }".to_owned())
            }
            // Tables need more than commas: TOML's own spelling, [{name = "a", …}].
            Some(Value::Array(_)) if text.trim_start().starts_with("[{") => {
                let table: Result<Table, _> = format!("list = {text}").parse();
                let list = table.ok().and_then(|mut table| table.remove("list"));
                list.ok_or_else(|| "it is no list of TOML tables, such as [{name = \"a\", …}]".to_owned())
            }
            Some(Value::Array(_)) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Ok(Value::Array(items.map(Value::from).collect()))
            }
            _ => Ok(Value::String(text)),
        }
    }

    fn section(&self, section: &str) -> Result<(), String> {
        if at(&self.known, section).is_some() {
            return Ok(());
        }
        let sections = sections(&self.known);
        let hint = nearest(section, sections.iter().map(|(name, _)| name.as_str()));
        let hint = hint.map_or_else(String::new, |name| format!("; did you mean [{name}]?"));
        Err(format!("there is no section [{section}]{hint}"))
    }

    /// Sets one key, and tries the whole so that a wrong type is blamed on the layer it came from.
    fn set(&mut self, section: &str, key: &str, value: Value) -> Result<(), String> {
        let known = at(&self.known, section);
        if !known.is_some_and(|keys| keys.contains_key(key)) {
            let near = known.and_then(|keys| nearest(key, keys.keys().map(String::as_str)));
            let hint = match near {
                Some(name) => format!("; did you mean {name}?"),
                None => self.hint_key(key),
            };
            return Err(format!("[{section}] has no key {key}{hint}"));
        }
        let mut keys = Some(&mut self.merged);
        for part in section.split('.') {
            keys = keys.and_then(|keys| keys.get_mut(part)).and_then(Value::as_table_mut);
        }
        if let Some(keys) = keys {
            keys.insert(key.to_owned(), value);
        }
        match Config::deserialize_from(&self.merged) {
            Ok(_) => Ok(()),
            // The reason would quote what may be a key.
            Err(_) if section == "auth" && key == "keys" => Err("[[auth.keys]]: each table needs a name and may, \
                beside hash (or, with signed = true, secret); it may have feeds and expires_at, and nothing else"
                .to_owned()),
            Err(_) if section == "auth" => {
                Err(format!("[{section}] {key}: must be a list of texts, such as [\"sha256:…\"]"))
            }
            Err(_) if key == "hs256_secrets" => Err(format!("[{section}] {key}: must be a list of texts")),
            Err(why) => Err(format!("[{section}] {key}: {}", why.trim())),
        }
    }

    /// A sentence about the section that has a key of this or nearly this name.
    fn hint_key(&self, key: &str) -> String {
        let sections = sections(&self.known);
        let all =
            || sections.iter().flat_map(|(name, keys)| keys.keys().map(move |key| (name, key.as_str())));
        let near = nearest(key, all().map(|(_, key)| key));
        let place = near.and_then(|near| all().find(|(_, key)| *key == near));
        match place {
            Some((section, key)) => format!("; did you mean [{section}] {key}?"),
            None => "; `tipcast default-config` lists every key".to_owned(),
        }
    }
}

impl Config {
    fn deserialize_from(table: &Table) -> Result<Config, String> {
        table.clone().try_into().map_err(|e: toml::de::Error| e.message().to_owned())
    }
}

/// The section of this name; `a.b` is below `a`.
fn at<'a>(table: &'a Table, section: &str) -> Option<&'a Table> {
    section.split('.').try_fold(table, |table, part| table.get(part)?.as_table())
}

/// Whether a default is a map whose names its user chooses: those are empty, and sections are not.
fn is_map(default: &Value) -> bool {
    default.as_table().is_some_and(Table::is_empty)
}

/// Every section with its keys.
fn sections(table: &Table) -> Vec<(String, &Table)> {
    let mut all = Vec::new();
    let below = table.iter().filter(|(_, value)| !is_map(value));
    for (name, keys) in below.filter_map(|(name, value)| Some((name, value.as_table()?))) {
        all.push((name.clone(), keys));
        let below = sections(keys).into_iter().map(|(below, keys)| (format!("{name}.{below}"), keys));
        all.extend(below);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Result<Config, ConfigError> {
        let mut layers = Layers::defaults()?;
        layers.file(text, "tipcast.toml")?;
        layers.config()
    }

    fn env(name: &str, value: &str) -> Result<Config, ConfigError> {
        load(None, [(name.to_owned(), value.to_owned())], Flags::default())
    }

    #[test]
    fn a_map_whose_names_the_user_chooses_is_a_value_however_it_is_spelled() {
        let spelled = [
            file("[feeds]\npoints = { EUR = 1, coins = 2 }"),
            file("[feeds.points]\nEUR = 1\ncoins = 2"),
            env("TIPCAST_FEEDS__POINTS", "{ EUR = 1, coins = 2 }"),
        ];
        for config in spelled {
            let points = config.unwrap().feeds.points;
            assert_eq!(
                points.into_iter().collect::<Vec<_>>(),
                [("EUR".to_owned(), 1), ("coins".to_owned(), 2)]
            );
        }
        let wrong = file("[feeds]\npoitns = { EUR = 1 }").unwrap_err().to_string();
        assert!(wrong.ends_with("[feeds] has no key poitns; did you mean points?"), "{wrong}");
        assert!(env("TIPCAST_FEEDS__POINTS", "EUR").is_err());
    }

    #[test]
    fn the_default_file_laid_over_itself_changes_nothing() {
        assert_eq!(file(DEFAULT), file(""));
    }

    #[test]
    fn every_key_with_a_typing_error_fails_with_the_right_name() {
        let known: Table = DEFAULT.parse().unwrap();
        for (section, keys) in sections(&known) {
            for (key, _) in keys.iter().filter(|(_, value)| !value.is_table()) {
                let typo = format!("{}x{}", &key[..2], &key[2..]);
                let refused = file(&format!("[{section}]\n{typo} = 1")).unwrap_err().0;
                assert!(refused.contains(&format!("did you mean {key}?")), "{refused}");
                let name = format!("TIPCAST_{}__{typo}", section.replace('.', "__")).to_uppercase();
                let refused = env(&name, "1").unwrap_err().0;
                assert!(refused.contains(&name) && refused.contains(&format!("mean {key}?")), "{refused}");
            }
            let refused = file(&format!("[{section}z]\na = 1")).unwrap_err().0;
            assert!(refused.contains(&format!("did you mean [{section}]?")), "{refused}");
        }
    }
    #[test]
    fn a_key_in_the_wrong_place_is_shown_its_section() {
        assert!(file("[http]\ncapacity = 3").unwrap_err().0.contains("[feeds] capacity"));
        assert!(file("listen = \"x\"").unwrap_err().0.contains("[http] listen"));
        assert!(file("[http]\nzzzzzzzz = 3").unwrap_err().0.contains("default-config"));
    }

    #[test]
    fn a_wrong_type_is_blamed_on_its_key_and_its_source() {
        let refused = file("[http]\nlisten = 8080").unwrap_err().0;
        assert!(refused.starts_with("tipcast.toml: [http] listen:"), "{refused}");
        let refused = file("[feeds]\ncapacity = -1").unwrap_err().0;
        assert!(refused.contains("[feeds] capacity"), "{refused}");
        let refused = env("TIPCAST_FEEDS__CAPACITY", "ten").unwrap_err().0;
        assert!(refused.contains("TIPCAST_FEEDS__CAPACITY") && refused.contains("integer"), "{refused}");
        assert!(env("TIPCAST_LOG__FORMAT", "xml").unwrap_err().0.contains("[log] format"));
        assert!(file("[http").unwrap_err().0.contains("not TOML"));
    }

    #[test]
    fn later_layers_win_and_foreign_variables_are_ignored() {
        let flags = Flags { redis: Some("redis://r".into()), insecure: true, ..Flags::default() };
        let vars = [
            ("TIPCAST_HTTP__LISTEN", "127.0.0.1:1"),
            ("TIPCAST_REDIS__URL", "redis://lost"),
            ("TIPCAST_FEEDS__DEDUP", "off"),
            ("TIPCAST_FEEDS__FLUSH_MS", "20"),
            ("TIPCAST_TOKEN", "x"),
            ("TIPCAST__TOKEN", "x"),
            ("PATH", "/bin"),
        ];
        let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let config = load(None, vars, flags).unwrap();
        assert_eq!(config.http.listen, "127.0.0.1:1");
        assert_eq!(config.redis.url, "redis://r");
        assert_eq!((config.feeds.flush_ms, config.http.insecure), (20, true));
        assert_eq!(config.feeds.dedup, "off");
    }

    #[test]
    fn a_file_that_is_no_toml_is_told_the_line_without_quoting_it() {
        let refused = file("[auth]\nproducer_keys = [\"tck_secret]\n").unwrap_err().0;
        assert!(refused.contains("tipcast.toml") && refused.contains("line 2"), "{refused}");
        assert!(!refused.contains("secret"), "{refused}");
        let refused = file("[auth]\nproducer_keys = \"tck_secret\"\n").unwrap_err().0;
        assert!(refused.contains("[auth] producer_keys") && !refused.contains("secret"), "{refused}");
    }

    #[test]
    fn a_list_in_the_environment_is_separated_by_commas() {
        let keys = env("TIPCAST_AUTH__PRODUCER_KEYS", "one, two,").unwrap().auth.producer_keys;
        assert_eq!(keys.iter().map(|key| key.expose()).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(
            env("TIPCAST_HTTP__ALLOWED_ORIGINS", "").unwrap().http.allowed_origins,
            Vec::<String>::new()
        );
    }

    #[test]
    fn keys_with_rights_are_tables_in_a_file_and_in_the_environment() {
        let one = "[[auth.keys]]\nname = \"a\"\nhash = \"sha256:0\"\nmay = [\"gifts\"]\nexpires_at = 2027-01-01T00:00:00Z\n";
        let keys = file(&format!("{one}\n{}", one.replace("\"a\"", "\"b\""))).unwrap().auth.keys;
        assert_eq!(keys.iter().map(|key| &*key.name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(keys[0].expires_at.as_ref().unwrap().to_string(), "2027-01-01T00:00:00Z");
        let line = "[{name = \"a\", hash = \"sha256:0\", may = [\"gifts\"]}]";
        assert_eq!(env("TIPCAST_AUTH__KEYS", line).unwrap().auth.keys[0].name, "a");
        for bad in [one.replace("may", "can"), one.replace("name = \"a\"\n", ""), "[auth.keys]\na = 1".into()]
        {
            let refused = file(&bad).unwrap_err().0;
            assert!(refused.contains("[[auth.keys]]") && !refused.contains("sha256:0"), "{refused}");
        }
        assert!(env("TIPCAST_AUTH__KEYS", "[{name").unwrap_err().0.contains("TOML tables"));
    }

    #[test]
    fn a_section_below_another_is_known_in_a_file_and_in_the_environment() {
        let tokens = file("[auth.tokens]\nissuer = \"a\"\n[auth]\nadmin_keys = [\"k\"]").unwrap().auth;
        assert_eq!(
            (&*tokens.tokens.issuer, tokens.tokens.leeway_ms, tokens.admin_keys.len()),
            ("a", 5_000, 1)
        );
        assert_eq!(env("TIPCAST_AUTH__TOKENS__ISSUER", "b").unwrap().auth.tokens.issuer, "b");
        let refused = file("[auth.tokens]\nhs256_secrets = \"hunter2\"").unwrap_err().0;
        assert!(refused.contains("[auth.tokens] hs256_secrets") && !refused.contains("hunter2"), "{refused}");
        assert!(file("[auth.tokenz]\na = 1").unwrap_err().0.contains("did you mean [auth.tokens]?"));
        assert!(file("[auth]\ntokens = 1").unwrap_err().0.contains("[auth] tokens"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let refused = load(Some(Path::new("/no/such.toml")), Vec::new(), Flags::default()).unwrap_err().0;
        assert!(refused.contains("/no/such.toml"), "{refused}");
    }
}
