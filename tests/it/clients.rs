//! The tables of clients/README.md: every endpoint is there, and every name is one of the sources.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// Where a column's functions are, and how one is written there.
const LIBRARIES: [(&str, &[&str], &[&str]); 5] = [
    ("Browser", &["static", "clients/js/src"], &["export function NAME(", "export class NAME "]),
    (
        "Node",
        &["clients/js/src", "static"],
        &["  NAME(", "  async NAME(", "export function NAME(", "export class NAME "],
    ),
    (
        "Python",
        &["clients/python/src/tipcast"],
        &["    NAME = _asking(", "    def NAME(", "    async def NAME(", "class NAME:"],
    ),
    (
        "Go",
        &["clients/go"],
        &["func (c *Client) NAME(", "func (g *Group) NAME(", "func NAME(", "type NAME struct"],
    ),
    (
        "Jvm",
        &["clients/jvm/src/main/kotlin/tipcast"],
        &["fun NAME(", "fun Watcher.Builder.NAME(", "class NAME "],
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folders: &[&str]) -> String {
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(root().join(folder)).unwrap());
    let files =
        files.map(|file| file.unwrap().path()).filter(|path| !path.to_string_lossy().contains("_test."));
    files.filter(|path| path.is_file()).map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// The cells of each row below a heading, without the head of the table.
fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// What stands between backticks.
fn names(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_name_in_the_tables_is_in_the_sources_of_its_library_and_what_is_not_there_says_why() {
    let page = std::fs::read_to_string(root().join("clients/README.md")).unwrap();
    let texts = LIBRARIES.map(|(_, folders, _)| sources(folders));
    // The columns of each table, behind those that say what is done.
    for (heading, says, libraries) in [("Watching", 1, 0..5), ("Receiving", 1, 1..5), ("Asking", 2, 1..5)] {
        for row in table(&page, heading) {
            assert_eq!(row.len(), says + libraries.len(), "{heading}: {row:?}");
            for (cell, library) in row[says..].iter().zip(libraries.clone()) {
                let (of, _, forms) = LIBRARIES[library];
                if cell.starts_with("no: ") && cell.len() > 8 {
                    continue;
                }
                let [name] = &names(cell)[..] else { panic!("{heading}: {cell:?} of {row:?}") };
                let found = forms.iter().any(|form| texts[library].contains(&form.replace("NAME", name)));
                assert!(found, "{of} has no {name}: {row:?}");
            }
        }
    }
}

#[test]
fn every_endpoint_is_in_the_tables_once() {
    let page = std::fs::read_to_string(root().join("clients/README.md")).unwrap();
    let api: Value = serde_json::from_str(include_str!("../../docs/openapi.json")).unwrap();
    let mut wanted = BTreeSet::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys().filter(|it| it.parse::<reqwest::Method>().is_ok());
        let methods = methods.filter(|it| ["get", "put", "post", "patch", "delete"].contains(&it.as_str()));
        wanted.extend(
            methods.map(|it| format!("{} {}", it.to_uppercase(), path.replace("/v1/feeds/{feed}", "…"))),
        );
    }
    let asked = table(&page, "Asking").into_iter().flat_map(|row| names(&row[1]));
    let left = table(&page, "Not here").into_iter().flat_map(|row| names(&row[0]));
    let all: Vec<String> = asked.chain(left).collect();
    let once: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(once.len(), all.len(), "an endpoint is there twice");
    assert_eq!(wanted.difference(&once).collect::<Vec<_>>(), Vec::<&String>::new(), "endpoints in no table");
    assert_eq!(
        once.difference(&wanted).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "endpoints that do not exist"
    );
}
