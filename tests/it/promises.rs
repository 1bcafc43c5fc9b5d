//! docs/RELIABILITY.md names a test beside each promise: each of them is there.

use std::collections::BTreeSet;
use std::path::Path;

/// Every module and function below `dir`, as `module::function`.
fn names_below(dir: &Path, module: &str, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let inner = match (module, stem) {
            (_, "mod") => module.to_owned(),
            ("", stem) => stem.to_owned(),
            (module, stem) => format!("{module}::{stem}"),
        };
        if path.is_dir() {
            names_below(&path, &inner, names);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for line in text.lines().map(str::trim_start) {
                let item = line.split_once("fn ").or_else(|| line.split_once("mod "));
                let name =
                    item.map(|(_, rest)| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
                if let Some(Some(name)) = name {
                    names.insert(format!("{inner}::{name}"));
                }
            }
            names.insert(inner);
        }
    }
}

#[test]
fn every_test_beside_a_promise_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut names = BTreeSet::new();
    names_below(&root.join("tests/it"), "", &mut names);
    names_below(&root.join("src"), "", &mut names);
    let page = std::fs::read_to_string(root.join("docs/RELIABILITY.md")).unwrap();
    let table = page.split("\n## ").find(|part| part.starts_with("Promises")).unwrap();
    let mut seen = 0;
    for row in table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise")) {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let quoted: Vec<&str> = tests.split('`').skip(1).step_by(2).filter(|it| !it.contains('=')).collect();
        assert!(!quoted.is_empty(), "a promise without a test: {row}");
        for name in quoted {
            let there = match name.strip_suffix('…') {
                Some(beginning) => names.iter().any(|it| it.starts_with(beginning)),
                None => names.contains(name),
            };
            assert!(there, "{name} is not among the tests:\n{row}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}
