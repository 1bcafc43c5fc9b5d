//! Bounds that are said in several places are the same in all of them: those of `domain::limits` in the default file,
//! in the API's document and in the scripts.

use tipcast::config::{Config, Flags, load};
use tipcast::domain::{MAX_SAFE, Millis, limits};
use tipcast::engine::protocol::scripts;

use crate::support::TestApp;

/// A policy's fields and their bounds; a ttl may be 0 too.
const POLICY: [(&str, (u64, u64)); 8] = [
    ("capacity", limits::CAPACITY),
    ("dedup_window_ms", limits::DEDUP_WINDOW_MS),
    ("row_ttl_ms", limits::ROW_TTL_MS),
    ("delay_ms", limits::DELAY_MS),
    ("flush_ms", limits::FLUSH_MS),
    ("idempotency_window_ms", limits::IDEMPOTENCY_WINDOW_MS),
    ("history", limits::HISTORY),
    ("review_timeout_ms", limits::REVIEW_TIMEOUT_MS),
];

#[test]
fn the_default_file_names_the_bounds_of_a_policy() {
    let file = include_str!("../../src/config/default.toml");
    for (field, (least, most)) in POLICY {
        let at = file.find(&format!("\n{field} = ")).unwrap_or_else(|| panic!("{field} is in the file"));
        let comment = file[..at].rsplit("\n#").next().unwrap().to_owned();
        let bounds = format!("{least} to {most}");
        assert!(comment.contains(&bounds), "{field}: {bounds} is not in {comment:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_of_the_api_has_the_bounds_of_a_policy() {
    let app = TestApp::start().await;
    let document = app.get("/openapi.json").await.json();
    let gift = ("Gift", &POLICY[3..4]);
    for (schema, fields) in [("Policy", &POLICY[..]), ("PolicyPatch", &POLICY[..]), gift] {
        for &(field, (least, most)) in fields {
            let told = &document["components"]["schemas"][schema]["properties"][field];
            let least = if field == "row_ttl_ms" { 0 } else { least };
            assert_eq!(
                (told["minimum"].as_u64(), told["maximum"].as_u64()),
                (Some(least), Some(most)),
                "{schema} {field}"
            );
        }
    }
}

#[test]
fn the_longest_times_of_the_configuration_are_those_of_the_domain() {
    let within = |change: &dyn Fn(&mut Config, u64), most: u64| {
        let checked = |value: u64| {
            let mut config = load(None, [], Flags::default()).unwrap();
            change(&mut config, value);
            config.check().is_ok()
        };
        assert_eq!((checked(most), checked(most + 1)), (true, false));
    };
    within(&|config, ms| config.drops.reminder_ms = ms, limits::WEEK_MS);
    within(&|config, ms| config.webhooks.give_up_ms = ms, limits::WEEK_MS);
    within(&|config, ms| config.webhooks.disable_after_ms = ms, limits::YEAR_MS);
    within(&|config, ms| config.webhooks.secret_overlap_ms = ms, limits::YEAR_MS);
    within(&|config, ms| config.reports.ledger_max_age_ms = ms, limits::YEAR_MS);
    within(&|config, ms| config.auth.tokens.max_age_ms = ms, limits::YEAR_MS);
}

#[test]
fn the_scripts_have_the_constants_of_the_domain() {
    let module = |name: &str| scripts::MODULES.iter().find(|it| it.name == name).unwrap().text;
    let Millis(latest) = Millis::MAX;
    assert!(module("clock").contains(&format!("MAX_TIME = {latest},")));
    assert!(module("merge").contains(&format!("local MAX_SAFE = {MAX_SAFE}\n")));
    assert!(module("counting").contains(&format!("local MAX_SAFE = {MAX_SAFE}\n")));
}
