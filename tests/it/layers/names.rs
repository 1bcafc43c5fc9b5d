//! What a source file names: its items, what it brings in and passes on, its paths, and where they lead.

use std::collections::{BTreeMap, BTreeSet};

/// One file as a module: what it is made of, and every path in it.
#[derive(Default)]
pub struct File {
    /// Child modules, in files and inline; a path through one that is inline stays in the file.
    pub inline: BTreeSet<String>,
    /// What is defined here.
    pub items: BTreeSet<String>,
    /// Names brought in, and from where.
    pub uses: BTreeMap<String, Vec<String>>,
    /// Modules whose names are all brought in.
    pub globs: Vec<Vec<String>>,
    /// Names passed on by `pub use`; naming them is only a use if the file names them again.
    pub passed_on: BTreeSet<String>,
    /// Paths of two or more parts in its code.
    pub paths: Vec<Vec<String>>,
    /// Single words in its code.
    pub words: BTreeSet<String>,
}

/// The files of a crate by their modules.
pub type Files = BTreeMap<Vec<String>, File>;

/// What a path leads to.
pub enum Target {
    Module(Vec<String>),
    /// Something in the file of this module.
    Item(Vec<String>),
}

/// Where `path` leads from `module`; `None` for what is not of this crate.
pub fn resolve(files: &Files, module: &[String], path: &[String], depth: usize) -> Option<Target> {
    if depth > 16 {
        return None;
    }
    let mut here = module.to_vec();
    for (i, part) in path.iter().enumerate() {
        match part.as_str() {
            "crate" | "tipcast" if i == 0 => here = vec![],
            "self" => {}
            "super" => drop(here.pop()),
            name => {
                let child = [here.clone(), vec![name.to_owned()]].concat();
                let file = files.get(&here)?;
                if files.contains_key(&child) {
                    here = child;
                } else if file.items.contains(name) {
                    return Some(Target::Item(here));
                } else if file.inline.contains(name) {
                    // Its names are this file's, unless it says otherwise by a path of its own.
                } else if let Some(target) = file.uses.get(name) {
                    let rest = [target.clone(), path[i + 1..].to_vec()].concat();
                    return match target[0] == *name && target.len() == 1 {
                        true => None,
                        false => resolve(files, &here, &rest, depth + 1),
                    };
                } else {
                    let through_a_glob = file.globs.iter().find_map(|glob| {
                        let Some(Target::Module(from)) = resolve(files, &here, glob, depth + 1) else {
                            return None;
                        };
                        let offered = &files[&from];
                        let has = offered.items.contains(name) || offered.uses.contains_key(name);
                        let deeper = !offered.globs.is_empty()
                            || files.contains_key(&[from.clone(), vec![name.to_owned()]].concat());
                        (has || deeper).then(|| resolve(files, &from, &path[i..], depth + 1)).flatten()
                    });
                    // What a macro made is nowhere to be seen, but its path says where it is.
                    return through_a_glob.or_else(|| (i > 0).then_some(Target::Item(here)));
                }
            }
        }
    }
    files.contains_key(&here).then_some(Target::Module(here))
}

/// A file's own words, and the names of the child modules that are for tests only.
pub fn read(tokens: &[String]) -> (File, Vec<String>) {
    let mut file = File::default();
    let mut tests = vec![];
    let text = |i: usize| tokens.get(i).map_or("", String::as_str);
    // Depth of braces, and that at which each inline module around the token ends.
    let (mut depth, mut inline) = (0, vec![]);
    let (mut i, mut visible) = (0, false);
    while i < tokens.len() {
        match text(i) {
            "#" if text(i + 1) == "[" || text(i + 1) == "!" => {
                let end = past(tokens, i, "[", "]");
                let attribute = &tokens[i..end];
                if attribute.windows(4).any(|w| w[0] == "cfg" && w[1] == "(" && w[2] == "test" && w[3] == ")")
                {
                    let (item, name) = end_of_item(tokens, end);
                    tests.extend(name);
                    i = item;
                    continue;
                }
                for token in attribute.iter().filter_map(|token| token.strip_prefix('"')) {
                    let path: Vec<String> = token.split("::").map(str::to_owned).collect();
                    if path.len() > 1 && path.iter().all(|part| is_name(part)) {
                        file.paths.push(outward(path, inline.len()));
                    }
                }
                i = end;
                continue;
            }
            "pub" => {
                visible = true;
                // `pub(in super::super)` says who sees it and names nothing.
                i = if text(i + 1) == "(" { past(tokens, i, "(", ")") } else { i + 1 };
                continue;
            }
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                inline.pop_if(|ends| *ends == depth);
            }
            "mod" if is_name(text(i + 1)) => {
                if text(i + 2) == "{" {
                    file.inline.insert(text(i + 1).to_owned());
                    inline.push(depth);
                    depth += 1;
                }
                i += 2;
            }
            "use" => {
                let end = (i..tokens.len()).find(|k| text(*k) == ";").unwrap_or(tokens.len());
                let mut leaves = vec![];
                tree(vec![], &tokens[i + 1..end], &mut leaves);
                for (name, path) in leaves {
                    let path = outward(path, inline.len());
                    if name == "*" {
                        file.globs.push(path);
                        continue;
                    }
                    if visible {
                        file.passed_on.insert(name.clone());
                    }
                    file.uses.insert(name, path);
                }
                i = end;
            }
            "struct" | "enum" | "trait" | "type" | "fn" | "const" | "static" | "union"
                if is_name(text(i + 1)) && text(i.wrapping_sub(1)) != "*" =>
            {
                file.items.insert(text(i + 1).to_owned());
            }
            "macro_rules" => drop(file.items.insert(text(i + 2).to_owned())),
            word if is_name(word) && text(i.wrapping_sub(1)) != "::" => {
                let mut path = vec![word.to_owned()];
                while text(i + 1) == "::" && is_name(text(i + 2)) {
                    path.push(text(i + 2).to_owned());
                    i += 2;
                }
                file.words.insert(path[0].clone());
                if path.len() > 1 {
                    file.paths.push(outward(path, inline.len()));
                }
            }
            _ => {}
        }
        visible = false;
        i += 1;
    }
    (file, tests)
}

/// A path in an inline module, as its file would write it.
fn outward(mut path: Vec<String>, inline: usize) -> Vec<String> {
    let out = path.iter().take(inline).take_while(|part| *part == "super").count();
    if out > 0 {
        path.splice(..out, ["self".to_owned()]);
    }
    path
}

/// Behind the item that begins at `from`, and its name if it is a module in a file of its own.
fn end_of_item(tokens: &[String], from: usize) -> (usize, Option<String>) {
    let text = |i: usize| tokens.get(i).map_or("", String::as_str);
    let mut i = from;
    let mut is_use = false;
    while i < tokens.len() {
        match text(i) {
            "#" => i = past(tokens, i, "[", "]") - 1,
            "use" => is_use = true,
            ";" => {
                let module = (text(i.wrapping_sub(2)) == "mod").then(|| text(i - 1).to_owned());
                return (i + 1, module);
            }
            "{" if !is_use => return (past(tokens, i, "{", "}"), None),
            _ => {}
        }
        i += 1;
    }
    (i, None)
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Behind the block that opens next after `from`.
fn past(tokens: &[String], from: usize, opens: &str, closes: &str) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(from) {
        if token == opens {
            depth += 1;
        } else if token == closes {
            depth -= 1;
            if depth == 0 {
                return i + 1;
            }
        }
    }
    tokens.len()
}

/// The leaves of a `use`: the name that each has here, and its path. `*` has the path of its module.
fn tree(base: Vec<String>, tokens: &[String], leaves: &mut Vec<(String, Vec<String>)>) {
    let mut path = base;
    let mut i = 0;
    while i < tokens.len() {
        match tokens[i].as_str() {
            "::" => {}
            "*" => return leaves.push(("*".into(), path)),
            "as" => return leaves.push((tokens[i + 1].clone(), path)),
            "self" if !path.is_empty() => {}
            "{" => {
                let inside = &tokens[i + 1..past(tokens, i, "{", "}") - 1];
                let (mut depth, mut start) = (0, 0);
                for k in 0..=inside.len() {
                    match inside.get(k).map(String::as_str) {
                        Some("{") => depth += 1,
                        Some("}") => depth -= 1,
                        Some(",") | None if depth == 0 => {
                            if start < k {
                                tree(path.clone(), &inside[start..k], leaves);
                            }
                            start = k + 1;
                        }
                        _ => {}
                    }
                }
                return;
            }
            part => path.push(part.to_owned()),
        }
        i += 1;
    }
    if let Some(name) = path.last() {
        leaves.push((name.clone(), path.clone()));
    }
}
