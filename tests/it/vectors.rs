//! The shared vectors (docs/protocol/vectors) on two more folds: the strict one of these tests, and the
//! JavaScript client's in Node. Its run in a browser is in `browser/client.rs`, the crate's own fold in
//! `src/domain/list/tests.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::fold::Fold;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/protocol/vectors");

/// Every vector of every file.
pub fn all() -> Vec<Value> {
    let files = std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let vectors: Vec<Value> = files
        .flat_map(|path| {
            let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            file["vectors"].as_array().unwrap().clone()
        })
        .collect();
    assert!(vectors.len() >= 50, "{} vectors", vectors.len());
    vectors
}

fn shown(fold: &Fold) -> Vec<String> {
    let with_rev = |row: &Value| match row["rev"].as_u64().unwrap() {
        1 => row["row"].as_str().unwrap().to_owned(),
        rev => format!("{}@{rev}", row["row"].as_str().unwrap()),
    };
    fold.rows.iter().map(with_rev).collect()
}

/// The strict fold does not say what to do about a fault, so `reconnect` and `restart` are one to it.
fn run(vector: &Value) -> Result<(), String> {
    let mut fold = Fold::lenient("show");
    for (n, step) in vector["steps"].as_array().unwrap().iter().enumerate() {
        let fail = |what: String| Err(format!("{}, step {n}: {what}", vector["name"]));
        let Some(frame) = step.get("frame") else {
            if json!(fold.position()) != step["connect"] {
                return fail(format!("offers {:?}", fold.position()));
            }
            fold.connected(fold.at.clone());
            continue;
        };
        let before = fold.clone();
        let follows = catch_unwind(AssertUnwindSafe(|| fold.take(frame))).is_ok();
        let ends = matches!(step["do"].as_str(), Some("reconnect" | "restart"));
        if follows == ends {
            return fail(format!("it {}", if follows { "follows" } else { "is a fault" }));
        }
        if !follows {
            fold = before;
        }
        if step["do"] == "restart" {
            fold.at = None;
        }
        if json!([fold.position(), shown(&fold)]) != json!([step["position"], step["rows"]]) {
            return fail(format!("{:?} {:?}", fold.position(), shown(&fold)));
        }
        let drops: Vec<String> = fold
            .drops
            .values()
            .map(|drop| format!("{}={}", drop["drop"].as_str().unwrap(), drop["free"]))
            .collect();
        if step.get("drops").is_some_and(|wanted| *wanted != json!(drops)) {
            return fail(format!("drops {drops:?}"));
        }
        let periods = ["all", "session", "day", "week", "month"].into_iter();
        let gifts: Vec<String> = periods
            .filter_map(|period| Some(format!("{period}={}", fold.totals.get(period)?["gifts"])))
            .collect();
        let goals: Vec<String> = fold
            .goals
            .values()
            .map(|goal| format!("{}={}", goal["goal"].as_str().unwrap(), goal["value"]))
            .collect();
        for (field, got) in [("gifts", gifts), ("goals", goals)] {
            if step.get(field).is_some_and(|wanted| *wanted != json!(got)) {
                return fail(format!("{field} {got:?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn the_strict_fold_of_the_tests_follows_every_shared_vector() {
    let wrong: Vec<String> = all().iter().filter_map(|vector| run(vector).err()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_javascript_client_follows_every_shared_vector_in_node() {
    if Command::new("node").arg("--version").output().is_err() {
        eprintln!("there is no node here; the browser's test runs the same vectors");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = |folder: &Path| {
        let script = root.join("tests/it/vectors/run.mjs");
        Command::new("node").arg(script).args([folder, Path::new(FOLDER)]).output().unwrap()
    };
    let ran = run(&root.join("static"));
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));

    // The same client with the rule left out that a delta must follow is found out.
    let broken = tempfile::tempdir().unwrap();
    let fold = std::fs::read_to_string(root.join("static/fold.js")).unwrap();
    let without = fold.replace("if (!whole ||", "if (false &&");
    assert_ne!(fold, without);
    std::fs::write(broken.path().join("fold.js"), without).unwrap();
    assert_eq!(run(broken.path()).status.code(), Some(1));
}

#[test]
fn a_vector_that_says_something_else_than_its_frames_fails() {
    let frame = json!({"type": "snapshot", "feed": "show", "epoch": "e", "seq": 1, "capacity": 3, "rows": [],
        "keepalive_ms": 25_000, "skipped": 0});
    let step = |done: &str, position: &str| json!({"name": "n", "steps": [{"frame": frame, "do": done, "position": position, "rows": []}]});
    assert_eq!(run(&step("show", "e:1")), Ok(()));
    assert!(run(&step("reconnect", "e:1")).is_err());
    assert!(run(&step("show", "e:2")).is_err());
}
