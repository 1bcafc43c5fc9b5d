//! Each Lua file says in its header what it is called with. Calls are made by these names, and files name KEYS and ARGV by
//! them, so they must be there.

use std::collections::BTreeSet;
use std::path::Path;

use tipcast::engine::protocol::scripts::{self, Header, Use};

/// What a header says, after a check of what every header must have.
fn read(name: &str, text: &'static str) -> Header {
    let lines: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("--")).map(str::trim).collect();
    let file = name.rsplit('/').next().unwrap();
    assert!(lines[0].starts_with(&format!("{file}: ")), "{name}: the first line says what it is for");
    for part in ["RETURNS ", "REFUSES "] {
        assert!(lines.iter().any(|line| line.starts_with(part)), "{name}: the header has no {part}");
    }
    Header::read(text).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// The text of every file.
fn all_texts() -> impl Iterator<Item = &'static str> {
    let others = scripts::MODULES.into_iter().map(|module| module.text);
    scripts::ALL.map(|script| script.text).into_iter().chain(others)
}

#[test]
fn every_script_has_a_header_and_what_stands_in_front_of_it_finds_its_arguments() {
    for script in scripts::ALL {
        let (name, header) = (script.name, read(script.file, script.text));
        assert_eq!(*script.header(), header, "{name}");
        // At least the clock.
        let has_clock = header.uses.iter().chain(&header.later).any(|it| *it == "clock");
        assert_eq!(has_clock, header.args.contains(&"now"), "{name}");
        let code = script.composed().unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(!code.contains("ITEM_"), "{name}: {code}");
        for module in header.uses.iter().chain(&header.later) {
            let called = [format!("{module}."), format!("{module}()")];
            assert!(
                called.iter().any(|it| code.contains(it)),
                "{name} names {module}, and nothing in it does"
            );
        }
    }
}

/// Names cannot be mixed up with their neighbours.
#[test]
fn no_script_counts_its_arguments() {
    for text in all_texts() {
        for counted in ["KEYS[", "ARGV["] {
            assert!(!text.contains(counted), "{text}");
        }
    }
}

/// A script that only reads is answered while nothing can be written, and who takes nothing in from outside while there is no room.
/// That one only reads is also looked at whenever the store in the process runs it.
#[test]
fn every_script_says_what_it_does_with_the_data() {
    let mut growing = BTreeSet::new();
    for script in scripts::ALL {
        let data = script.header().data.unwrap_or_else(|| panic!("{}: the header has no DATA", script.name));
        if data == Use::Grows {
            growing.insert(script.name);
        }
        let code: String = script.text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
        let writes = [
            "'SET'", "'HSET'", "'DEL'", "'HDEL'", "'ZADD'", "'ZREM'", "'LPUSH'", "'RPUSH'", "'UNLINK'",
            "settle()", "commit()",
        ];
        let wrote: Vec<_> = writes.iter().filter(|word| code.contains(**word)).collect();
        assert!(data != Use::Reads || wrote.is_empty(), "{} reads, and has {wrote:?}", script.name);
    }
    let takes_in = [
        "block_change",
        "feed_drop_claim",
        "feed_drop_define",
        "feed_publish",
        "hooks_swap",
        "request_claim",
        "source_swap",
    ];
    assert_eq!(growing, BTreeSet::from(takes_in));
}

/// What a script names is checked in front of it, and is in both lines that operators copy.
#[test]
fn every_command_that_scripts_name_is_checked_and_documented() {
    let known: BTreeSet<&str> = scripts::COMMANDS.split(' ').collect();
    for text in all_texts() {
        for part in text.split("call('").chain(text.split("in_parts('")).skip(1) {
            let name = part.split('\'').next().unwrap();
            let is_command = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase());
            assert!(!is_command || known.contains(name), "{name}");
        }
    }
    let docs = include_str!("../../docs/OPERATING.md");
    let lines: Vec<&str> =
        docs.lines().filter(|it| it.starts_with("user tipcast on") && it.contains("+evalsha")).collect();
    assert_eq!(lines.len(), 2);
    for line in lines {
        let allowed: BTreeSet<String> =
            line.split(' ').filter_map(|word| word.strip_prefix('+')).map(str::to_uppercase).collect();
        let missing: Vec<_> = known.iter().filter(|name| !allowed.contains(**name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[test]
fn every_lua_file_is_one_that_is_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
    let (mut files, mut folders) = (BTreeSet::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "lua") {
                files.insert(
                    path.strip_prefix(&root).unwrap().with_extension("").to_string_lossy().into_owned(),
                );
            }
        }
    }
    let mut known: BTreeSet<String> = scripts::ALL.iter().map(|script| script.file.to_owned()).collect();
    known.extend(scripts::MODULES.iter().map(|module| module.file.to_owned()));
    assert_eq!(files, known);
}

#[test]
fn scripts_keep_numbers_out_of_floats_keys_out_of_arguments_and_messages_in_their_slot() {
    for text in all_texts() {
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
        // It rounds numbers, so it gets texts only.
        assert_eq!(code.matches("cjson.encode").count(), code.matches("cjson.encode(text)").count());
        for banned in ["tostring", "loadstring", "math.random", "'PUBLISH'"] {
            assert!(!code.contains(banned), "{banned}");
        }
        assert!(!code.contains("redis.pcall"), "redis.pcall: what fails ends the script");
    }
}
