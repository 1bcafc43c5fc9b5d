//! Each Lua file says in its header what it is called with; this compares it with the Rust calls.

use std::collections::BTreeSet;
use std::path::Path;

use tipcast::engine::redis::scripts;

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    purpose: bool,
    keys: (usize, usize),
    args: (usize, usize),
    returns: bool,
    refuses: bool,
}

/// `-- KEYS 5 + 2 per gift:` is (5, 2); as many numbered lines must follow, without holes.
fn read(name: &str, text: &str) -> Header {
    let lines: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("--")).map(str::trim).collect();
    let counted = |what: &str| {
        let at = lines
            .iter()
            .position(|line| line.starts_with(&format!("{what} ")))
            .unwrap_or_else(|| panic!("{name}: the header has no {what}"));
        let numbers: Vec<usize> =
            lines[at].split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        let count = (numbers[0], numbers.get(1).copied().unwrap_or(0));
        let listed = lines[at + 1..].iter().map_while(|line| line.split(' ').next()?.parse::<usize>().ok());
        let listed: Vec<usize> = listed.collect();
        assert_eq!(
            listed,
            (1..=count.0 + count.1).collect::<Vec<_>>(),
            "{name}: {what} are listed one by one"
        );
        count
    };
    Header {
        purpose: lines[0].starts_with(&format!("{name}: ")),
        keys: counted("KEYS"),
        args: counted("ARGV"),
        returns: lines.iter().any(|line| line.starts_with("RETURNS ")),
        refuses: lines.iter().any(|line| line.starts_with("REFUSES ")),
    }
}

#[test]
fn every_script_is_called_as_its_header_says() {
    for script in scripts::ALL {
        let wanted =
            Header { purpose: true, keys: script.keys, args: script.args, returns: true, refuses: true };
        assert_eq!(read(script.name, script.text), wanted, "{}", script.name);
    }
    let common = read("feed_common", scripts::COMMON.text);
    assert_eq!(common.args, (scripts::COMMON_ARGS, 0));
    let drops = read("feed_drops", scripts::DROPS.text);
    assert_eq!((drops.keys.0, drops.args.0), scripts::DROPS_BEGIN);
    for script in scripts::ALL {
        let parts: Vec<_> = script.parts.iter().map(|part| part.name).collect();
        let with_parts = ["feed_", "report_"].iter().any(|topic| script.name.starts_with(topic));
        assert_eq!(parts.is_empty(), !with_parts, "{}", script.name);
        if parts.contains(&"feed_common") {
            assert!(script.keys.0 >= common.keys.0 && script.args.0 >= common.args.0, "{}", script.name);
        }
        if parts.contains(&"feed_ledger") {
            let enough = script.keys.0 >= 10 && script.args.0 >= 12;
            assert!(enough, "{}: KEYS 8 to 10 and ARGV 10 to 12 are about the ledger", script.name);
        }
        if parts.contains(&"report_common") {
            let own = read("report_common", scripts::REPORT.text);
            assert!(script.keys.0 >= own.keys.0 && script.args.0 >= own.args.0, "{}", script.name);
        }
        if parts.contains(&"feed_due") {
            assert!(script.keys.0 >= 7, "{}: KEYS 6 and 7 are the due queue", script.name);
        }
        if parts.contains(&"feed_drops") {
            assert!(script.keys.0 >= drops.keys.0 && script.args.0 >= drops.args.0, "{}", script.name);
        }
    }
}

#[test]
fn every_lua_file_is_one_that_is_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let mut known: BTreeSet<String> = scripts::ALL.iter().map(|script| script.name.to_owned()).collect();
    known.extend(scripts::PARTS.iter().map(|part| part.name.to_owned()));
    assert_eq!(files, known);
}

#[test]
fn scripts_keep_numbers_out_of_floats_and_keys_out_of_arguments() {
    for text in scripts::ALL.map(|script| script.text).into_iter().chain(scripts::PARTS.map(|part| part.text))
    {
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
        for banned in ["cjson", "tostring", "loadstring", "math.random", "redis.pcall"] {
            assert!(!code.contains(banned), "{banned}");
        }
    }
}
