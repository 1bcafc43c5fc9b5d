//! No circle between the files of `src/`: if `a.rs` names something of `b.rs`, then `b.rs` names nothing of
//! `a.rs`, directly or through others. What counts is the file that something is written in: a name that
//! `mod.rs` passes on (`pub use store::Store`) is a name of `store.rs`, and passing on is not using. What a file
//! declares as its child (`mod child;`) is not using it either. A module and those inside it may name each other:
//! the outer one puts together what the inner ones share. Tests may name what they like.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{Files, Target, read, resolve};
use super::tokens::tokens;

/// Circles that are there still. One that is gone has to leave this list, so it can only shrink.
const KNOWN: &[&[&str]] = &[
    &["engine::embedded::claims", "engine::embedded::store"],
    &[
        "engine::embedded::feeds",
        "engine::embedded::reports::hooks",
        "engine::embedded::reports::jobs",
        "engine::embedded::reports::ledger",
    ],
    &["http::openapi::drops", "http::openapi::producer", "http::openapi::schemas"],
];

#[test]
fn no_files_name_each_other_in_a_circle() {
    let files: Vec<(Vec<String>, String)> =
        super::sources().iter().map(|(path, text)| (super::module_of(path), text.clone())).collect();
    let found = circles(&files);
    let known: BTreeSet<Vec<String>> =
        KNOWN.iter().map(|circle| circle.iter().map(|file| file.to_string()).collect()).collect();
    let new: Vec<String> = found
        .iter()
        .filter(|circle| !known.contains(&circle.files))
        .map(|circle| format!("{}:\n  {}", circle.files.join(", "), circle.names.join("\n  ")))
        .collect();
    assert!(new.is_empty(), "files that name each other in a circle:\n{}", new.join("\n"));
    let gone: Vec<_> =
        known.iter().filter(|circle| !found.iter().any(|found| found.files == **circle)).collect();
    assert!(gone.is_empty(), "these circles are gone, take them out of KNOWN: {gone:?}");
}

#[test]
fn the_check_sees_every_way_to_name_a_sibling() {
    for there in [
        "use super::b::B;",
        "use super::b::MadeByAMacro;",
        "use crate::room::b::B;",
        "use crate::{domain::Gift, room::{b::{B, other}}};",
        "use super::b::*; fn f() -> B {}",
        "use super::b; fn f() -> b::B {}",
        "use super::b as else_where; fn f() -> else_where::B {}",
        "use super::b::B as Other;",
        "fn f() -> super::b::B {}",
        "impl<T: Into<super::b::B>> From<T> for A {}",
        "fn f() { crate::room::b::make() }",
        "use super::B;",
        "use super::*; struct A(B);",
        "use crate::*; fn f() -> room::b::B {}",
        "use crate::prelude::B;",
        "use super::inner::B;",
        "mod within { use super::super::b::B; }",
        "#[serde(with = \"super::b::as_text\")] struct A;",
        "fn f() { super::b::shout!() }",
        "pub(in super::super) fn f(b: super::b::B) {}",
        "pub use super::b::B; struct A(B);",
        "use super::far::B;",
    ] {
        assert_eq!(circles_of(there).len(), 1, "unseen: {there}");
    }
}

#[test]
fn the_check_takes_nothing_else_for_a_circle() {
    for there in [
        "struct A;",
        "// use super::b::B;\n/// See [`super::b::B`].\nstruct A;",
        "const A: &str = \"super::b::B\";",
        "pub(in super::b) fn f() {}",
        "pub use super::b::B;",
        "use super::Shared; use super::inner::Own;",
        "use std::b::B; use serde::*;",
        "#[cfg(test)] mod tests { use super::super::b::B; }",
        "#[cfg(test)] use super::b::B; fn f() {}",
        "#[cfg(test)] impl A { fn of_tests() -> super::b::B {} }",
        "mod b { pub struct B; } use self::b::B;",
        "use super::*; struct A(Shared);",
    ] {
        assert!(circles_of(there).is_empty(), "no circle: {there}: {:?}", circles_of(there));
    }
}

/// The circles of a crate in which `room/b.rs` names `room/a.rs`, which has this text.
fn circles_of(a: &str) -> Vec<Circle> {
    let file = |module: &str, text: &str| (super::split(module), text.to_owned());
    circles(&[
        file("lib", "mod prelude; mod room;"),
        file("prelude", "pub use crate::room::B;"),
        file(
            "room",
            "mod a; mod b; mod far; pub use a::A; pub use b::B; struct Shared; mod inner { pub use super::b::B; \
             pub struct Own; }",
        ),
        file("room::a", a),
        file("room::b", "pub struct B(super::a::A); fn make() {} mod as_text {} macro_rules! shout {}"),
        file("room::far", "pub use super::b::*;"),
    ])
}

/// Files that name each other, and by what.
#[derive(Debug)]
struct Circle {
    files: Vec<String>,
    names: Vec<String>,
}

fn circles(sources: &[(Vec<String>, String)]) -> Vec<Circle> {
    let mut files: Files = BTreeMap::new();
    let mut of_tests: Vec<Vec<String>> = vec![];
    for (module, text) in sources {
        let module: Vec<String> = match module[0].as_str() {
            "lib" => vec![],
            _ => module.clone(),
        };
        let (file, tests) = read(&tokens(text));
        of_tests.extend(tests.into_iter().map(|name| [module.clone(), vec![name]].concat()));
        files.insert(module, file);
    }
    files.retain(|module, _| !of_tests.iter().any(|tests| module.starts_with(tests)));

    let mut edges: BTreeMap<&Vec<String>, BTreeMap<Vec<String>, String>> = BTreeMap::new();
    for (module, file) in &files {
        let to = edges.entry(module).or_default();
        let mut add = |path: &[String], also_modules: bool| {
            let target = match resolve(&files, module, path, 0) {
                Some(Target::Item(target)) => target,
                Some(Target::Module(target)) if also_modules => target,
                _ => return,
            };
            if !module.starts_with(&target) && !target.starts_with(module) {
                to.entry(target).or_insert_with(|| path.join("::"));
            }
        };
        for path in &file.paths {
            add(path, true);
        }
        for (name, path) in &file.uses {
            // A module that is brought in is used by the paths that begin with it.
            if !file.passed_on.contains(name) || file.words.contains(name) {
                add(path, false);
            }
        }
        for glob in &file.globs {
            let Some(Target::Module(from)) = resolve(&files, module, glob, 0) else { continue };
            let offered = files[&from].items.iter().chain(files[&from].uses.keys());
            for name in offered.filter(|name| file.words.contains(*name) && !file.items.contains(*name)) {
                add(&[glob.clone(), vec![name.clone()]].concat(), false);
            }
        }
    }
    strongly_connected(&edges)
}

/// Groups of files of which each reaches every other.
fn strongly_connected(edges: &BTreeMap<&Vec<String>, BTreeMap<Vec<String>, String>>) -> Vec<Circle> {
    let reach = |from: &Vec<String>| {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(at) = todo.pop() {
            for next in edges.get(&at).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(next.clone()) {
                    todo.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> =
        edges.keys().map(|file| (*file, reach(file))).collect();
    let mut groups = BTreeSet::new();
    for (file, there) in &reached {
        if there.contains(*file) {
            let group: Vec<_> =
                there.iter().filter(|other| reached[*other].contains(*file)).cloned().collect();
            groups.insert(group);
        }
    }
    let circle = |group: Vec<Vec<String>>| {
        let mut names = vec![];
        for from in &group {
            for (to, path) in edges[from].iter().filter(|(to, _)| group.contains(to)) {
                names.push(format!("{} names {path} of {}", from.join("::"), to.join("::")));
            }
        }
        Circle { files: group.iter().map(|file| file.join("::")).collect(), names }
    };
    groups.into_iter().map(circle).collect()
}
