//! docs/asyncapi.yaml names every frame and every op that the code sends, and none that it does not. A running gateway
//! serves it, and the protocol for people.

use std::collections::BTreeSet;

use crate::support::app::TestApp;

const WRITTEN: &str = include_str!("../../docs/asyncapi.yaml");
const FRAMES: &str = include_str!("../../src/live/frame.rs");
const OPS: &str = include_str!("../../src/domain/change.rs");
const COMMANDS: &str = include_str!("../../src/http/watch/command.rs");
const MESSAGES: &str = include_str!("../../src/http/watch/messages.rs");

/// What stands between `before` and the next `after`, wherever that is in `text`.
fn between<'a>(text: &'a str, before: &str, after: &str) -> BTreeSet<&'a str> {
    text.split(before).skip(1).filter_map(|rest| rest.split(after).next()).collect()
}

fn code(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap()
}

#[test]
fn every_frame_and_command_is_described_by_its_type_and_no_other() {
    let mut types = between(code(FRAMES), "Frame::new(\"", "\"");
    types.extend(between(code(COMMANDS), "Some(\"", "\")"));
    let messages: Vec<String> = messages().into_iter().map(|(name, _)| name).collect();
    types.extend(messages.iter().map(String::as_str));
    assert!(types.contains("snapshot") && types.contains("unsubscribe") && types.len() == 12, "{types:?}");
    assert_eq!(types, between(WRITTEN, "type: { const: ", " }"));
}

#[test]
fn every_op_and_every_reason_to_leave_is_described_and_no_other() {
    let mut ops = between(OPS, "\\\"op\\\":\\\"", "\\\"");
    // A reset is no op on the wire: watchers get a snapshot.
    assert!(ops.remove("reset") && ops.len() == 8, "{ops:?}");
    assert_eq!(ops, between(WRITTEN, "op: { const: ", " }"));
    let reasons = between(WRITTEN, "reason: { enum: [", "]");
    let reasons: BTreeSet<&str> = reasons.iter().flat_map(|list| list.split(", ")).collect();
    assert_eq!(reasons, between(OPS, "=> \"", "\""));
}

#[test]
fn a_short_frame_has_its_declared_members() {
    let frames = ["resumed", "keepalive", "presence"].map(|kind| {
        let spelled = between(code(FRAMES), &format!("{{{{\\\"type\\\":\\\"{kind}\\\""), "}}\"");
        let [spelled] = spelled.into_iter().collect::<Vec<_>>()[..] else { panic!("{kind}") };
        (kind.to_owned(), spelled.to_owned())
    });
    for (kind, spelled) in frames.into_iter().chain(messages()) {
        let described = WRITTEN.split(&format!("type: {{ const: {kind} }}")).next().unwrap();
        let required = described.rsplit("required: [").next().unwrap().split(']').next().unwrap();
        for field in required.split(", ").filter(|field| *field != "type") {
            let has =
                spelled.contains(&format!("\\\"{field}\\\"")) || spelled.contains(&format!("{field}: "));
            assert!(has, "{kind} has no {field}: {spelled}");
        }
    }
}

#[test]
fn every_code_of_an_error_is_named() {
    let sources = [
        include_str!("../../src/http/watch/watcher.rs"),
        include_str!("../../src/http/watch/protocol.rs"),
        include_str!("../../src/live/bounds.rs"),
    ];
    let listed =
        WRITTEN.split("          examples:\n").nth(1).unwrap().split("        message:").next().unwrap();
    let listed: BTreeSet<&str> = listed.lines().filter_map(|line| line.trim().strip_prefix("- ")).collect();
    assert!(listed.len() >= 9, "{listed:?}");
    for code in &listed {
        let quoted = format!("\"{code}\"");
        assert!(sources.iter().any(|it| self::code(it).contains(&quoted)), "nothing says {code}");
    }
    for code in sources.iter().flat_map(|it| between(self::code(it), "code: \"", "\"")) {
        assert!(listed.contains(code), "{code} is not listed");
    }
}

#[test]
fn every_message_of_a_channel_has_an_operation() {
    let (channels, rest) =
        WRITTEN.split_once("\nchannels:\n").unwrap().1.split_once("\noperations:\n").unwrap();
    for channel in ["feed", "feeds"] {
        let carried = channels.split(&format!("\n  {channel}:\n")).last().unwrap();
        let carried = carried.split("    messages:\n").nth(1).unwrap().split("\n\n").next().unwrap();
        let carried: BTreeSet<&str> =
            carried.lines().filter_map(|line| line.trim().split(':').next()).collect();
        let used = between(rest, &format!("'#/channels/{channel}/messages/"), "'");
        assert_eq!(carried, used, "{channel}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_gateway_serves_the_protocol_for_people_and_for_programs() {
    let app = TestApp::start().await;
    let served = app.get("/asyncapi.yaml").await;
    assert_eq!((served.status, served.text.as_str()), (200, WRITTEN));
    assert_eq!(served.header("content-type"), "application/yaml");
    // It was a page of its own.
    let direct = crate::support::api::http().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let moved = direct.get(format!("{}/docs/protocol", app.url())).send().await.unwrap();
    assert_eq!(
        (moved.status().as_u16(), moved.headers()["location"].to_str().unwrap()),
        (308, "../docs#live-protocol")
    );
    let page = app.get("/docs").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let protocol =
        page.text.split_once("<div id=\"protocol\"").unwrap().1.split_once("</section>").unwrap().0;
    for never in ["<script", "<style", " style=", " onclick=", "src="] {
        assert!(!protocol.contains(never), "{never}");
    }
    // Everything that is linked is there.
    for link in between(&page.text, "href=\"", "\"") {
        match link.strip_prefix('#') {
            // Drawn from /openapi.json.
            Some(id) if id.starts_with("problem-") || id.starts_with("event-") => (),
            Some(id) => assert!(page.text.contains(&format!("id=\"{id}\"")), "{link}"),
            None => assert_eq!(app.get(&format!("/{link}")).await.status, 200, "{link}"),
        }
    }
    for kind in between(WRITTEN, "op: { const: ", " }") {
        assert!(page.text.contains(&format!("<td><code>{kind}</code></td>")), "{kind}");
    }
    assert!(page.text.contains("href=\"#live-protocol\"") && page.text.contains("href=\"asyncapi.yaml\""));
}

/// The variants of `SocketMessage`, by their names on the wire, each with its fields.
fn messages() -> Vec<(String, String)> {
    let variants = MESSAGES.split("pub enum SocketMessage").nth(1).unwrap().split("\n}").next().unwrap();
    let named = variants.split("\n    },").filter_map(|variant| {
        let (head, fields) = variant.split_once(" {\n        ")?;
        Some((head.rsplit(' ').next()?.to_lowercase(), fields.to_owned()))
    });
    let all: Vec<_> = named.collect();
    assert!(all.len() >= 3, "{all:?}");
    all
}
