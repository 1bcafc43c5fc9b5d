//! The page on rights against the running server.

use std::collections::BTreeSet;

use tipcast::auth::{KeyHash, Right, fresh_key};
use tipcast::config::KeyTable;

use super::ask;
use crate::support::TestApp;
use crate::support::app::Backing;

const DOCS: &str = include_str!("../../../docs/AUTH.md");

/// The methods and paths that the page says a right opens, of one feed.
fn told(right: &str) -> BTreeSet<String> {
    let line = DOCS.lines().find(|line| line.starts_with(&format!("| `{right}` |"))).unwrap();
    let quoted = line.split('`').skip(3).step_by(2).filter(|text| text.contains(" …/"));
    quoted.map(|text| text.replace('…', "/v1/feeds/{feed}")).collect()
}

#[tokio::test]
async fn each_right_opens_what_the_page_says_and_nothing_that_the_page_gives_to_another() {
    let keys: Vec<(Right, String)> = Right::ALL.into_iter().map(|right| (right, fresh_key())).collect();
    let app = TestApp::with(&Backing::folder(), |config| {
        let table = |(right, key): &(Right, String)| KeyTable {
            name: right.to_string(),
            hash: Some(KeyHash::of(key).to_string().into()),
            may: vec![right.to_string()],
            ..KeyTable::default()
        };
        config.auth.keys = keys.iter().map(table).collect();
    })
    .await;
    let mut asked = 0;
    for owner in ["gifts", "moderate", "policy", "drops", "claims", "reports"] {
        let lines = told(owner);
        assert!(!lines.is_empty(), "{owner}");
        for named in lines {
            let line = named.replace("{feed}", "show").replace(['{', '}'], "");
            for (right, key) in &keys {
                let bearer = format!("Bearer {key}");
                let said = ask(&app, &line, &[("authorization", &bearer)], Some("{")).await;
                let observes = *right == Right::Observe && named.starts_with("GET ");
                let opens = observes || *right == Right::Admin || told(right.as_str()).contains(&named);
                assert_eq!(said.status != 403, opens, "{right}: {line}: {said:?}");
                assert_ne!(said.status, 401, "{right}: {line}");
                asked += 1;
            }
        }
    }
    assert!(asked > 100, "{asked}");
}
