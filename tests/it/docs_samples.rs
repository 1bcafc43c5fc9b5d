//! The samples of `/docs`: every one of them is a call that the gateway knows, in every language.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::process::Process;

/// A sample: which call it makes, its language, and its text.
struct Sample {
    call: String,
    language: String,
    text: String,
}

/// All samples for a gateway at `base`; nothing where there is no Node to make them.
fn samples(base: &str) -> Vec<Sample> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = TempDir::new().unwrap();
    std::fs::copy(root.join("static/docs_samples.js"), folder.path().join("samples.mjs")).unwrap();
    let program = r#"
        import { readFileSync } from "node:fs";
        import { samplesOf } from "./samples.mjs";
        const api = JSON.parse(readFileSync(process.argv[2]));
        const all = [];
        for (const [path, item] of Object.entries(api.paths)) {
          for (const method of ["post", "get", "put", "patch", "delete"]) {
            if (!item[method]) continue;
            const texts = samplesOf(process.argv[3], path, method, item[method]);
            for (const [language, text] of Object.entries(texts)) all.push({ call: `${method} ${path}`, language, text });
          }
        }
        console.log(JSON.stringify(all));"#;
    std::fs::write(folder.path().join("all.mjs"), program).unwrap();
    let made = Command::new("node")
        .arg(folder.path().join("all.mjs"))
        .args([root.join("docs/openapi.json").as_os_str(), base.as_ref()])
        .output();
    let Ok(Output { status, stdout, stderr }) = made else { return Vec::new() };
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let all: Vec<Value> = serde_json::from_slice(&stdout).unwrap();
    let text = |it: &Value, name: &str| it[name].as_str().unwrap().to_owned();
    all.iter()
        .map(|it| Sample { call: text(it, "call"), language: text(it, "language"), text: text(it, "text") })
        .collect()
}

/// What a program prints.
async fn run(program: &str, args: &[&str], key: &str) -> String {
    let mut command = Command::new(program);
    command.args(args).env("TIPCAST_KEY", key).stdin(Stdio::null());
    let out = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_is_a_call_that_the_gateway_knows() {
    let backing = Backing::folder();
    let gateway = Process::on(&backing);
    gateway.give("show", &gift("order-1")).await;
    let samples = samples(&gateway.base);
    if samples.is_empty() {
        println!("skipped: there is no node");
        return;
    }
    let mut languages: Vec<_> = samples.iter().map(|it| it.language.clone()).collect();
    languages.sort_unstable();
    languages.dedup();
    assert_eq!(languages, ["Go", "Node", "Python", "curl"]);
    let mut calls = 0;
    for Sample { call, text, .. } in samples.iter().filter(|it| it.language == "curl") {
        // A stream that does not end is read for a moment.
        let text = text.replacen("curl", "curl --silent --max-time 1", 1);
        let said = run("bash", &["-c", &text], "").await;
        for wrong in [
            "there is nothing at",
            "/problems/method-not-allowed",
            "/problems/malformed",
            "/problems/unsupported",
        ] {
            assert!(!said.contains(wrong), "{call}:\n{text}\n{said}");
        }
        calls += 1;
    }
    assert!(calls > 60, "{calls}");
    // The other languages say the same: tried where it shows, and checked for their form in all.
    let folder = TempDir::new().unwrap();
    let file = |n: usize, end: &str| folder.path().join(format!("s{n}.{end}")).display().to_string();
    let has_go = Command::new("gofmt").arg("-h").output().is_ok();
    for (n, Sample { call, language, text }) in samples.iter().enumerate() {
        let ends = [("Node", "mjs"), ("Python", "py"), ("Go", "go")];
        let Some((_, end)) = ends.iter().find(|(name, _)| name == language) else { continue };
        std::fs::write(file(n, end), text.clone() + "\n").unwrap();
        let is_tried =
            ["post /v1/feeds/{feed}/gifts", "get /v1/feeds/{feed}", "put /v1/feeds/{feed}/drops/{drop}"];
        let is_tried = is_tried.contains(&&**call);
        let said = match &**language {
            "Node" if is_tried => run("node", &[&file(n, end)], "tck").await,
            "Python" if is_tried => run("python3", &[&file(n, end)], "tck").await,
            "Go" if has_go => run("gofmt", &["-l", &file(n, end)], "").await,
            _ => continue,
        };
        match is_tried && language != "Go" {
            true => {
                assert!(said.starts_with("200 {") || said.starts_with("201 {"), "{call} {language}: {said}")
            }
            false => assert!(said.is_empty(), "{call} {language}: {said}\n{text}"),
        }
    }
}
