//! The platforms' own libraries as the other side: what they sign is taken. Skipped, and said so, where they are not
//! installed: `make test` fetches them.

use std::process::{Command, Stdio};

use super::*;

/// What a program prints, line by line; nothing when it cannot run here.
fn signed(program: &str, script: &str, args: &[&str]) -> Option<Vec<String>> {
    let root = env!("CARGO_MANIFEST_DIR");
    let out = Command::new(program)
        .arg(format!("{root}/tests/it/sources/{script}"))
        .args(args)
        .env("PYTHONPATH", format!("{root}/target/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LIBRARIES", format!("{root}/target/node/node_modules"))
        .stdin(Stdio::null())
        .output();
    match out {
        Ok(out) if out.status.success() => {
            let text = String::from_utf8(out.stdout).unwrap();
            Some(text.lines().map(str::to_owned).collect())
        }
        Ok(out) => {
            let why = String::from_utf8_lossy(&out.stderr);
            let why = why.trim().lines().last().unwrap_or_default().to_owned();
            assert!(why.contains("not installed"), "{script}: {why}");
            println!("skipped: {why}");
            None
        }
        Err(why) => {
            println!("skipped: {program} does not run: {why}");
            None
        }
    }
}

#[tokio::test]
async fn signatures_of_stripes_library_are_accepted() {
    let Some(lines) = signed("python3", "sign.py", &["stripe", SECRET, STRIPE]) else { return };
    let app = gateway().await;
    let path = set(&app, "show", "tips", &settings("stripe", SECRET)).await;
    let said = deliver(&app, &path, vec![("stripe-signature", lines[0].clone())], STRIPE).await;
    assert_eq!(said.json()["status"], "accepted", "{said:?}");
}

#[tokio::test]
async fn signatures_of_the_standard_webhooks_library_are_accepted() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let body = r#"{"type":"tip","data":{"id":"t-1","user_id":"u-1","user_name":"Ada","amount":250,"currency":"EUR"}}"#;
    let Some(lines) = signed("python3", "sign.py", &["standard-webhooks", secret, body]) else { return };
    let app = gateway().await;
    let path = set(&app, "show", "tips", &settings("standard-webhooks", secret)).await;
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let headers = names.into_iter().zip(lines).collect();
    let said = deliver(&app, &path, headers, body).await;
    assert_eq!(said.json()["status"], "accepted", "{said:?}");
    let row = rows(&app, "show").await.remove(0);
    assert_eq!((&row["user"]["name"], &row["value"]["amount"]), (&json!("Ada"), &json!(250)));
}

#[tokio::test]
async fn signatures_of_githubs_library_are_accepted() {
    let Some(lines) = signed("node", "sign.mjs", &[SECRET, GITHUB]) else { return };
    let app = gateway().await;
    let path = set(&app, "show", "tips", &settings("github-sponsors", SECRET)).await;
    let headers = vec![("x-github-delivery", "d-9".to_owned()), ("x-hub-signature-256", lines[0].clone())];
    let said = deliver(&app, &path, headers, GITHUB).await;
    assert_eq!(said.json()["status"], "accepted", "{said:?}");
}
