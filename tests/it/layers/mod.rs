//! Which module may import which (docs/ARCHITECTURE.md): reads `src/` and fails on any edge that the table
//! does not list. A rule that is only agreed does not hold.

use std::path::{Path, PathBuf};

mod circles;
mod names;
mod tokens;

use tokens::tokens;

/// Each layer and the layers it may name, besides itself.
const MAY: &[(&str, &[&str])] = &[
    ("random", &[]),
    ("spelling", &[]),
    ("domain", &["spelling"]),
    ("config", &["spelling"]),
    ("console", &[]),
    ("metrics", &[]),
    ("outbound", &[]),
    ("sources", &["domain"]),
    ("supervise", &["metrics", "random"]),
    ("traces", &["domain", "metrics", "outbound", "random", "supervise"]),
    ("auth", &["console", "domain", "engine", "metrics", "outbound", "random", "supervise"]),
    ("engine", &["domain", "metrics", "random", "supervise"]),
    ("live", &["domain", "engine", "metrics", "supervise"]),
    ("work", &["domain", "engine", "metrics", "outbound", "random", "supervise", "traces"]),
    ("http", &["auth", "domain", "engine", "live", "metrics", "random", "sources", "supervise", "traces"]),
    ("tools", &["console", "domain", "outbound", "sources"]),
    (
        "app",
        &[
            "auth",
            "config",
            "console",
            "domain",
            "engine",
            "http",
            "live",
            "metrics",
            "supervise",
            "tools",
            "traces",
            "work",
        ],
    ),
    ("lib", &[]),
    ("main", &["app", "config", "console", "tools"]),
];

/// Layers that know the store by its methods only.
const METHODS_ONLY: &[&str] = &["live", "http", "work"];

/// Folders of a layer, and which of these each may name, besides itself.
const FOLDERS: &[(&str, &str, &[&str])] = &[
    ("engine", "protocol", &[]),
    ("engine", "redis", &["protocol"]),
    ("engine", "embedded", &["protocol"]),
    ("engine", "store", &["protocol", "redis", "embedded"]),
    ("http", "inbound", &[]),
    ("http", "door", &["inbound"]),
];

const MOST_LINES: usize = 600;

#[test]
fn every_layer_names_only_the_layers_below_it() {
    let mut faults = vec![];
    for (path, text) in sources() {
        faults.extend(
            faults_of(&module_of(&path), &text).into_iter().map(|f| format!("{}: {f}", path.display())),
        );
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn no_source_file_is_longer_than_six_hundred_lines() {
    let long = |(path, text): (PathBuf, String)| {
        let lines = text.lines().count();
        (lines > MOST_LINES).then(|| format!("{}: {lines} lines", path.display()))
    };
    let long: Vec<_> = sources().into_iter().filter_map(long).collect();
    assert!(long.is_empty(), "\n{}", long.join("\n"));
}

#[test]
fn the_check_sees_every_way_to_name_another_layer() {
    for (module, text) in [
        ("domain", "use crate::engine::Store;"),
        ("domain", "fn f() { crate::http::answer() }"),
        ("domain", "use crate::{domain::Row, engine};"),
        ("domain::row", "use super::super::engine::Store;"),
        ("domain::row", "use super::{Gift, super::live};"),
        ("domain", "use super::engine;"),
        ("domain", "mod tests { use super::super::engine; }"),
        ("domain", "use crate::*;"),
        ("domain", "use crate as all;"),
        ("domain", "use tipcast::engine;"),
        ("engine", "use crate::live::Replica;"),
        ("engine::embedded", "use super::store::Keys;"),
        ("engine::protocol", "use crate::engine::redis::dial::Dial;"),
        ("engine::redis::shard", "use super::super::store::parts;"),
        ("engine::redis::slots", "use super::super::embedded::Store;"),
        ("live", "use crate::{domain::{Row, RowId}, engine::{Store, embedded::EmbeddedStore}};"),
        ("live", "use crate::engine; fn f(e: engine::store::Store) {}"),
        ("live", "use crate::http;"),
        ("http::ws", "use crate::app::run;"),
        ("config", "use crate::domain::Policy;"),
        ("tools::demo", "use crate::engine::Store;"),
        ("main", "use tipcast::engine::Store;"),
        ("main", "use tipcast::{app, http};"),
        ("unheard_of", "struct Drawer;"),
    ] {
        assert!(!faults_of(&split(module), text).is_empty(), "unseen in {module}: {text}");
    }
}

#[test]
fn the_check_leaves_honest_code_alone() {
    for (module, text) in [
        ("domain::row", "use super::{Gift, text}; use crate::domain::Millis; use super::super::domain::Row;"),
        ("domain::row", "mod tests { use super::*; use super::super::Gift; }"),
        (
            "domain",
            "// use crate::engine;\n/// See [`crate::engine`].\n/* crate::http */ pub(crate) fn f() {}",
        ),
        (
            "domain",
            "const A: &str = \"crate::engine\"; const B: char = '\"'; const C: &str = r#\"crate::live\"#;",
        ),
        ("domain", "fn f<'a>(x: &'a str) -> &'a str { x }"),
        ("engine::embedded::store", "use super::super::record::Records; use crate::metrics;"),
        ("live", "use crate::engine::{Store, Notice}; struct S { engine: u8 }"),
        ("app", "use crate::engine::{embedded::EmbeddedStore, store::Store}; use crate::http;"),
        ("engine::store::backend", "use crate::engine::{redis::topology::Topology, protocol::slots};"),
        ("main", "use tipcast::app; fn main() { tipcast::config::load(); }"),
    ] {
        assert_eq!(faults_of(&split(module), text), Vec::<String>::new(), "{module}: {text}");
    }
}

fn sources() -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, found),
                false if path.extension().is_some_and(|e| e == "rs") => found.push(path),
                false => {}
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = vec![];
    walk(&root, &mut found);
    found.sort();
    assert!(found.len() > 10, "the sources are where they are looked for");
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path.strip_prefix(&root).unwrap().to_owned(), text)
    };
    found.into_iter().map(read).collect()
}

fn split(path: &str) -> Vec<String> {
    path.split("::").map(str::to_owned).collect()
}

/// `engine/embedded/mod.rs` is `engine::embedded`.
fn module_of(path: &Path) -> Vec<String> {
    let mut parts: Vec<_> =
        path.with_extension("").components().map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// What is wrong with the paths that `text`, the file of `module`, names.
fn faults_of(module: &[String], text: &str) -> Vec<String> {
    let layer = module[0].as_str();
    let Some((_, may)) = MAY.iter().find(|(name, _)| *name == layer) else {
        return vec![format!("the layer {layer:?} is not in the table")];
    };
    let root: Vec<String> = if matches!(layer, "lib" | "main") { vec![] } else { module.to_vec() };
    let mut faults = vec![];
    for path in named_paths(&root, &tokens(text)) {
        let shown = path.join("::");
        let part = |path: &[String]| path.get(1).cloned().unwrap_or_default();
        match path.first().map(String::as_str) {
            Some("engine")
                if METHODS_ONLY.contains(&layer)
                    && FOLDERS
                        .iter()
                        .any(|(layer, folder, _)| *layer == "engine" && *folder == part(&path)) =>
            {
                faults.push(format!("{layer} names {shown}; it may know the store by its methods only"));
            }
            Some(to) if to == layer => {
                let (here, there) = (part(module), part(&path));
                let may = |folder: &str| {
                    let row = FOLDERS.iter().find(|(of, name, _)| *of == layer && *name == folder);
                    row.map(|(.., may)| *may)
                };
                if here != there
                    && may(&there).is_some()
                    && may(&here).is_some_and(|may| !may.contains(&&*there))
                {
                    faults.push(format!("{} names {shown}", module.join("::")));
                }
            }
            Some(to) if may.contains(&to) => {}
            _ => faults.push(format!("{layer} names crate::{shown}")),
        }
    }
    faults
}

/// Every path in `tokens` that leaves its module: from the crate's root, through `super`, or through
/// an imported `engine`. Given from the root, groups spread out.
fn named_paths(module: &[String], tokens: &[String]) -> Vec<Vec<String>> {
    let mut found = vec![];
    // Inline modules around the current token, with the depth of braces that ends each.
    let mut inline: Vec<(String, usize)> = vec![];
    let mut depth = 0;
    let mut i = 0;
    while i < tokens.len() {
        let next = tokens.get(i + 1).map_or("", String::as_str);
        let starts = i == 0 || tokens[i - 1] != "::";
        match tokens[i].as_str() {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                inline.pop_if(|(_, ends)| *ends == depth);
            }
            "mod" if tokens.get(i + 2).is_some_and(|t| t == "{") => inline.push((next.to_owned(), depth)),
            "crate" | "tipcast" if starts && next == "as" => found.push(vec!["the whole crate".to_owned()]),
            "crate" | "tipcast" | "super" | "engine" if starts && next == "::" => {
                let mut here = module.to_vec();
                here.extend(inline.iter().map(|(name, _)| name.clone()));
                spread(&here, &tokens[i..], &mut found);
            }
            _ => {}
        }
        i += 1;
    }
    found
}

/// Reads one path or group at the start of `tokens`; gives how many it took.
fn spread(here: &[String], tokens: &[String], found: &mut Vec<Vec<String>>) -> usize {
    fn tree(base: Vec<String>, tokens: &[String], found: &mut Vec<Vec<String>>) -> usize {
        let mut path = base;
        let mut i = 0;
        while i < tokens.len() {
            match tokens[i].as_str() {
                "crate" | "tipcast" if i == 0 => path.clear(),
                "super" => drop(path.pop()),
                "self" => {}
                "{" => {
                    i += 1;
                    while i < tokens.len() && tokens[i] != "}" {
                        i += tree(path.clone(), &tokens[i..], found).max(1);
                        while i < tokens.len() && !matches!(tokens[i].as_str(), "," | "}") {
                            i += 1;
                        }
                        i += usize::from(tokens.get(i).is_some_and(|t| t == ","));
                    }
                    return i + 1;
                }
                word => path.push(word.to_owned()),
            }
            i += 1;
            if tokens.get(i).is_none_or(|t| t != "::") {
                break;
            }
            i += 1;
        }
        found.push(path);
        i
    }
    let base = match tokens[0].as_str() {
        "super" => here.to_vec(),
        _ => vec![],
    };
    tree(base, tokens, found)
}
