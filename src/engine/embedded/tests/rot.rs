//! Pages of the file rot: the engine starts, and whose records can be read notices nothing.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

use super::*;
use crate::domain::Position;
use crate::engine::{
    ClaimEntries, ListDeadDue, ListDrops, ListScheduled, Publish, ReadChanges, ReadSnapshot, RunDue,
};

/// Feeds of the folder that rots.
const NAMES: [&str; 6] = ["f-a", "f-b", "f-c", "f-d", "f-e", "f-f"];

/// A folder whose larger tables have pages of every kind.
async fn large() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    for name in ["f-b", "f-e"] {
        fill(&engine, name).await;
    }
    for round in 0..12 {
        for name in NAMES {
            let gifts =
                (0..70).map(|n| gift(&format!("{round:02}-{n}-{name}"), r#","message":"some words""#));
            engine.run(Publish { feed: feed(name), gifts: gifts.collect(), now: NOW }).await.unwrap();
        }
    }
    engine.task((1, Some(NOW)), Feeds::settle_log).await.unwrap();
    for name in NAMES {
        for n in 0..40 {
            engine
                .run(Publish { feed: feed(name), gifts: vec![gift(&format!("z-{n}-{name}"), "")], now: NOW })
                .await
                .unwrap();
        }
    }
    engine.close().await.unwrap();
    dir
}

#[derive(Clone, Debug)]
struct Page {
    of: String,
    kind: String,
    at: u64,
    is_root: bool,
}

fn pages(dir: &Path) -> Vec<Page> {
    let db = database(dir);
    let mut query = db.prepare("SELECT name, pagetype, pageno, path FROM dbstat ORDER BY pageno").unwrap();
    let read = query.query_map([], |r| {
        Ok(Page { of: r.get(0)?, kind: r.get(1)?, at: r.get(2)?, is_root: r.get::<_, String>(3)? == "/" })
    });
    read.unwrap().map(Result::unwrap).collect()
}

const WAYS: [&str; 4] = ["zeros", "header", "content", "pointers"];

fn garble(file: &Path, page: &Page, way: &str) {
    let start = (page.at - 1) * 4096;
    let file = std::fs::OpenOptions::new().write(true).read(true).open(file).unwrap();
    let mut bytes = vec![0; 4096];
    file.read_exact_at(&mut bytes, start).unwrap();
    let from = if page.at == 1 { 100 } else { 0 };
    match way {
        "header" => bytes[from..from + 8].fill(0x99),
        "pointers" => bytes[from + 12..from + 24].iter_mut().for_each(|b| *b ^= 0x5a),
        "content" => bytes[4000..4040].iter_mut().for_each(|b| *b ^= 0x5a),
        _ => bytes.fill(0),
    }
    file.write_all_at(&bytes, start).unwrap();
}

/// Everything that a feed has, as far as its users can see it; an error when it is damaged.
async fn seen(engine: &EmbeddedEngine, name: &str) -> Result<String, EngineError> {
    let (name, now) = (feed(name), NOW.plus(1));
    let shown = engine.run(ReadSnapshot { feed: name.clone(), now }).await?;
    let since = Position { epoch: shown.at.epoch.clone(), seq: shown.at.seq.saturating_sub(200) };
    let missed = engine.run(ReadChanges { feed: name.clone(), since: since.clone(), max: 1_000 }).await?;
    let drops = engine.run(ListDrops { feed: name.clone(), now }).await?;
    let scheduled = engine.run(ListScheduled { feed: name.clone(), after: None, max: 100 }).await?;
    let ask = Ask { max: 2_000, lease_ms: 1_000, from: Start::Start };
    let entries =
        engine.run(ClaimEntries { feed: name.clone(), group: "looks".parse().unwrap(), ask, now }).await?;
    // What was taken once is known.
    let again = (0..12).map(|round| gift(&format!("{round:02}-33-{name}"), r#","message":"some words""#));
    let known = engine.run(Publish { feed: name.clone(), gifts: again.collect(), now }).await?;
    let dead = engine.run(ListDeadDue { feed: name.clone() }).await?;
    Ok(format!("{shown:?} {missed:?} {drops:?} {scheduled:?} {entries:?} {known:?} {dead:?}"))
}

/// Pages of each kind of each table and index: the first and the last.
fn some_pages(dir: &Path) -> Vec<Page> {
    let mut kinds: BTreeMap<(String, String, bool), Vec<Page>> = BTreeMap::new();
    for page in pages(dir) {
        kinds.entry((page.of.clone(), page.kind.clone(), page.is_root)).or_default().push(page);
    }
    let some = kinds.into_values().flat_map(|pages| {
        let mut at = vec![0, pages.len() - 1];
        at.dedup();
        at.into_iter().map(move |at| pages[at].clone()).collect::<Vec<_>>()
    });
    some.collect()
}

/// True of a page without which nothing can be said of any feed.
fn is_shared(page: &Page) -> bool {
    let by_feed = ["approved", "blocks", "changes", "drops", "gifters", "hooks", "ledger", "locks"];
    let by_feed_too = ["ids", "readers", "refunds", "sources", "tallies", "told", "undone"];
    let is_by_feed = by_feed.contains(&&*page.of) || by_feed_too.contains(&&*page.of);
    page.of == "sqlite_schema" || page.is_root && is_by_feed
}

/// True of a page that can be made again from others.
fn is_derived(page: &Page) -> bool {
    let indexes = ["due_id", "dead_feed", "claims_", "pending_until", "letters_reader", "log_places"];
    ["probe", "journal"].contains(&&*page.of)
        || page.of.starts_with("sqlite_autoindex")
        || indexes.iter().any(|it| page.of.starts_with(it))
}

/// That nobody but those who are told so misses anything, and who that is.
async fn hurt(
    (case, page): (&str, &Page),
    engine: &EmbeddedEngine,
    whole: &BTreeMap<&str, String>,
) -> Vec<&'static str> {
    let mut hurt = vec![];
    for name in NAMES {
        match seen(engine, name).await {
            Ok(seen) => assert!(seen == whole[name], "{case}: {name}\n{seen}\n{}", whole[name]),
            Err(EngineError::FeedDamaged(_)) => hurt.push(name),
            Err(error) => panic!("{case}: {name} {error:?}"),
        }
    }
    for name in NAMES.into_iter().chain(["f-new"]) {
        // That a page is damaged may show as late as now.
        match works(engine, name).await {
            Ok(()) if !hurt.contains(&name) => {}
            Err(EngineError::FeedDamaged(_)) if hurt.contains(&name) => {}
            Err(EngineError::FeedDamaged(_)) if name != "f-new" || is_shared(page) => hurt.push(name),
            done => panic!("{case}: {name} {done:?}"),
        }
    }
    hurt.sort_unstable();
    hurt
}

/// Asks for everything that writes.
async fn works(engine: &EmbeddedEngine, name: &str) -> Result<(), EngineError> {
    let (name, now) = (feed(name), NOW.plus(120_000));
    let outcomes = engine
        .run(Publish { feed: name.clone(), gifts: vec![gift("now-1", ""), gift("now-2", "")], now })
        .await?;
    assert!(matches!(outcomes[..], [Outcome::New(_), Outcome::New(_)]), "{outcomes:?}");
    engine.run(ReadSnapshot { feed: name.clone(), now }).await?;
    engine.run(ListDrops { feed: name.clone(), now }).await?;
    let ask = Ask { max: 9, lease_ms: 1_000, from: Start::Start };
    engine.run(ClaimEntries { feed: name.clone(), group: "g".parse().unwrap(), ask, now }).await?;
    engine.run(RunDue { feed: name.clone(), now }).await.map(drop)
}

async fn unhurt(dir: &Path) -> BTreeMap<&'static str, String> {
    let dir = copy(dir);
    let engine = open(dir.path());
    let mut whole = BTreeMap::new();
    for name in NAMES {
        whole.insert(name, seen(&engine, name).await.unwrap());
    }
    whole
}

#[tokio::test]
async fn a_folder_with_a_page_that_rotted_starts_and_hurts_those_whose_records_stood_there() {
    let dir = large().await;
    let whole = unhurt(dir.path()).await;
    for page in some_pages(dir.path()) {
        // Most tables have one page here; what is true of one is of all.
        let ways = if page.is_root && page.kind == "leaf" { &WAYS[1..2] } else { &WAYS };
        for way in ways {
            let (case, dir) = (format!("{way} of {page:?}"), copy(dir.path()));
            garble(&folder::database(dir.path()), &page, way);
            let engine = match EmbeddedEngine::open(EmbeddedOptions::new(dir.path())) {
                Ok(engine) => engine,
                Err(why) => {
                    assert!(is_shared(&page), "{case}: {why}");
                    assert!(why.to_string().contains("`tipcast store check`"), "{case}: {why}");
                    continue;
                }
            };
            let hurt = hurt((&case, &page), &engine, &whole).await;
            assert!(!is_derived(&page) || hurt.is_empty(), "{case}: {hurt:?}");
            assert!(page.is_root || hurt.len() < NAMES.len(), "{case}: {hurt:?}");
            engine.close().await.unwrap();
            // It stays so.
            let named = files::check(dir.path()).unwrap().damage.into_iter();
            let named: Vec<_> = named.map(|it| it.feed.unwrap().to_string()).collect();
            assert_eq!(named, hurt, "{case}");
        }
    }
}

#[tokio::test]
async fn a_page_that_rots_under_a_running_engine_hurts_those_whose_records_stood_there() {
    let dir = large().await;
    let whole = unhurt(dir.path()).await;
    let many = some_pages(dir.path()).into_iter().filter(|page| !page.is_root || is_derived(page));
    for page in many {
        let (case, dir) = (format!("header of {page:?}"), copy(dir.path()));
        let engine = EmbeddedEngine::open(EmbeddedOptions::new(dir.path())).unwrap();
        // Nothing of the file is in memory.
        let forget = |feeds: &mut Feeds| {
            feeds.db.conn.execute_batch("PRAGMA cache_size = 0; PRAGMA shrink_memory;")?;
            Ok(())
        };
        engine.task((1, Some(NOW)), forget).await.unwrap();
        garble(&folder::database(dir.path()), &page, "header");
        let hurt = hurt((&case, &page), &engine, &whole).await;
        if !is_shared(&page) {
            assert!(!is_derived(&page) || hurt.is_empty(), "{case}: {hurt:?}");
            assert!(page.is_root || hurt.len() < NAMES.len(), "{case}: {hurt:?}");
        }
        engine.close().await.unwrap();
    }
}
