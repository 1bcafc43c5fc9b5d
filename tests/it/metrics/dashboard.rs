//! What is written about metrics, against what there is.

use std::collections::BTreeSet;

use super::Scrape;
use crate::support::TestApp;

const DASHBOARD: &str = include_str!("../../../docs/grafana.json");
const TABLE: &str = include_str!("../../../docs/METRICS.md");

/// The words of `text` that are names of metrics.
fn mentioned(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("tipcast_")).collect()
}

/// The table names a histogram once, not each of its three samples.
fn metric_of(sample: &str) -> &str {
    let ends = ["_bucket", "_sum", "_count"];
    ends.into_iter().find_map(|end| sample.strip_suffix(end)).unwrap_or(sample)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_and_the_table_name_metrics_that_exist_and_the_table_names_all() {
    let app = TestApp::start().await;
    // The units of drops are there once there is a drop.
    let drop = r#"{"gift":{"id":"r","name":"R"},"total":1}"#;
    assert_eq!(app.call("PUT", "/v1/feeds/show/drops/r", Some(drop)).await.status, 201);
    let scrape = Scrape::of(&app).await;
    let samples = scrape.names();
    assert!(samples.len() > 25, "{samples:?}");

    let panels: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    assert!(panels["panels"].as_array().unwrap().len() > 8);
    let used = mentioned(DASHBOARD);
    assert!(used.len() > 15, "{used:?}");
    let unknown: Vec<_> = used.difference(&samples).collect();
    assert!(unknown.is_empty(), "docs/grafana.json uses {unknown:?}");

    // What a show needs to be looked after is on it, and by words that there are.
    for needed in ["tipcast_reviews_waiting", "tipcast_source_deliveries_total"] {
        assert!(used.contains(needed), "docs/grafana.json shows no {needed}");
    }
    let words = DASHBOARD
        .split("operation")
        .skip(1)
        .filter_map(|rest| rest.strip_prefix("=~\\\"").or(rest.strip_prefix("=\\\""))?.split('\\').next());
    let words: BTreeSet<&str> = words.flat_map(|words| words.split('|')).collect();
    for operation in ["review", "block", "totals", "leaders", "attend", "presence"] {
        assert!(words.contains(operation), "docs/grafana.json shows no {operation}: {words:?}");
    }
    for word in words {
        let labelled = format!("operation=\"{word}\"");
        assert!(
            scrape.0.keys().any(|series| series.contains(&labelled)),
            "docs/grafana.json asks for {labelled}"
        );
    }

    let metrics: BTreeSet<&str> = samples.iter().map(|name| metric_of(name)).collect();
    let tables = TABLE.split("## What to be woken for").next().unwrap();
    let rows = tables.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rows: BTreeSet<&str> = rows.map(|name| name.split('{').next().unwrap_or(name)).collect();
    assert_eq!(metrics, rows, "docs/METRICS.md");
    let known: BTreeSet<&str> = samples.union(&metrics).copied().collect();
    let unknown: Vec<_> = mentioned(TABLE).difference(&known).copied().collect();
    assert!(unknown.is_empty(), "docs/METRICS.md mentions {unknown:?}");
}

/// The alerts of the Helm chart are the table's: an alert that is in one alone is known to half of the people.
#[test]
fn the_alerts_of_the_chart_are_those_of_the_page() {
    let rules = include_str!("../../../packaging/helm/tipcast/templates/monitoring.yaml");
    let (_, section) = TABLE.split_once("## What to be woken for").unwrap();
    let wanted: Vec<String> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(expression, _)| expression.replace("\\|", "|"))
        .collect();
    let expressions =
        rules.lines().filter_map(|line| line.trim().strip_prefix("expr: '")?.strip_suffix('\''));
    assert!(wanted.len() > 10, "{wanted:?}");
    assert_eq!(expressions.collect::<Vec<_>>(), wanted);
}
