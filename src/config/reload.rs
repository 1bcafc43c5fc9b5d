//! What of a new configuration can hold without a restart.

use serde_json::Value;

use super::Config;

/// A running configuration and a newly read one, put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// The running one with every key that can change while it runs taken from the new one.
    pub config: Config,
    /// What changed by that, as `[section] key`.
    pub changed: Vec<String>,
    /// What is different in the new one and waits for a restart.
    pub waiting: Vec<String>,
}

impl Config {
    /// What becomes of `self`, which runs, when `new` is read. The result may break rules that neither
    /// broke alone, so it must be checked: `new` may drop its keys because it also listens elsewhere.
    pub fn reloaded(&self, new: &Config) -> Reloaded {
        let mut config = self.clone();
        config.auth.clone_from(&new.auth);
        config.limits.clone_from(&new.limits);
        config.limits.deliveries_per_second = self.limits.deliveries_per_second;
        config.limits.unverified_body_bytes = self.limits.unverified_body_bytes;
        config.http.allowed_origins.clone_from(&new.http.allowed_origins);
        config.http.hosts.clone_from(&new.http.hosts);
        config.http.trusted_proxies.clone_from(&new.http.trusted_proxies);
        config.http.forwarded_header.clone_from(&new.http.forwarded_header);
        config.log.level.clone_from(&new.log.level);
        config.log.audit.clone_from(&new.log.audit);
        Reloaded { changed: differing(self, &config), waiting: differing(&config, new), config }
    }
}

/// The keys in which two configurations differ.
fn differing(one: &Config, other: &Config) -> Vec<String> {
    let (Ok(one), Ok(other)) = (serde_json::to_value(one), serde_json::to_value(other)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (section, keys) in one.as_object().into_iter().flatten() {
        compare(section, keys, &other[section], &mut found);
    }
    found
}

/// The keys of one section, and of those below it, in which two configurations differ.
fn compare(section: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    for (key, value) in one.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => compare(&format!("{section}.{key}"), value, &other[key], found),
            _ if other[key] != *value => found.push(format!("[{section}] {key}")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DEFAULT, Flags, load};

    /// Another value of the same type.
    fn other(key: &str, value: &Value) -> Value {
        match value {
            Value::Bool(on) => Value::Bool(!on),
            Value::Number(n) => (n.as_u64().unwrap() + 1).into(),
            Value::Array(_) if key == "keys" => serde_json::json!([{"name": "a", "may": ["gifts"]}]),
            Value::Array(all) => Value::Array(all.iter().cloned().chain(["new".into()]).collect()),
            Value::String(text) if text == "text" => "json".into(),
            Value::String(text) if text == "any" => "all".into(),
            Value::String(text) => format!("{text}x").into(),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn settings_marked_in_the_default_file_are_reloaded() {
        let running = load(None, Vec::new(), Flags::default()).unwrap();
        let table = serde_json::to_value(&running).unwrap();
        let mut marked = Vec::new();
        let (mut section, mut note) = (String::new(), String::new());
        // A note speaks of every key up to the next note.
        let mut ended = false;
        for line in DEFAULT.lines() {
            if let Some(name) = line.strip_prefix('[') {
                section = format!("[{}", name);
            } else if line.starts_with('#') {
                if std::mem::take(&mut ended) {
                    note.clear();
                }
                note.push_str(line);
            } else if let Some((key, _)) = line.split_once(" = ") {
                if note.contains("# (reload)") {
                    marked.push(format!("{section} {key}"));
                }
                ended = true;
            } else {
                note.clear();
            }
        }
        assert!(marked.len() > 8, "{marked:?}");
        assert!(marked.contains(&"[auth.tokens] issuer".to_owned()), "{marked:?}");
        let mut all = Vec::new();
        for (section, keys) in table.as_object().unwrap() {
            for (key, value) in keys.as_object().unwrap() {
                match value.as_object() {
                    Some(below) => all.extend(below.keys().map(|below| {
                        (format!("[{section}.{key}] {below}"), format!("/{section}/{key}/{below}"))
                    })),
                    None => all.push((format!("[{section}] {key}"), format!("/{section}/{key}"))),
                }
            }
        }
        for (name, pointer) in all {
            let mut table = table.clone();
            let value = table.pointer_mut(&pointer).unwrap();
            *value = other(pointer.rsplit('/').next().unwrap(), value);
            let new: Config = serde_json::from_value(table).unwrap();
            let is_marked = marked.contains(&name);
            let reloaded = running.reloaded(&new);
            assert_eq!(reloaded.config == new, is_marked, "{name}");
            let (changed, waiting) = match is_marked {
                true => (vec![name], vec![]),
                false => (vec![], vec![name]),
            };
            assert_eq!((reloaded.changed, reloaded.waiting), (changed, waiting));
        }
    }
}
