//! docs/asyncapi.yaml names every frame and every op that the code sends, and none that it does not.

use std::collections::BTreeSet;

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
fn what_a_short_frame_is_said_to_have_it_has() {
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

/// The variants of `Message`, by their names on the wire, each with its fields.
fn messages() -> Vec<(String, String)> {
    let variants = MESSAGES.split("pub enum Message").nth(1).unwrap().split("\n}").next().unwrap();
    let named = variants.split("\n    },").filter_map(|variant| {
        let (head, fields) = variant.split_once(" {\n        ")?;
        Some((head.rsplit(' ').next()?.to_lowercase(), fields.to_owned()))
    });
    let all: Vec<_> = named.collect();
    assert!(all.len() >= 3, "{all:?}");
    all
}
