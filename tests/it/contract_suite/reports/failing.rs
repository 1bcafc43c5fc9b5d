//! A commit of the embedded store that fails: what was entered and who was to read it goes with it, and
//! memory agrees with the disk again.

use tipcast::domain::{Hook, Job, Reader};
use tipcast::engine::{StoreError, Swapped};

use crate::support::case::{Case, PATIENCE};
use crate::support::gifts::gift;
use crate::support::readers::{ASK, BATCH_MS, cursors, gifts, group_of, handed, of_all, of_feed, spec};
use crate::support::stores::Storage;

/// Lets commits fail, or work again.
async fn spoil(t: &Case, spoilt: bool) {
    let Storage::Embedded(dir) = &t.store else { unreachable!() };
    let db = rusqlite::Connection::open(dir.path().join("tipcast.db")).unwrap();
    db.busy_timeout(PATIENCE).unwrap();
    let sql = match spoilt {
        true => "CREATE TRIGGER spoilt BEFORE INSERT ON log BEGIN SELECT RAISE(ABORT, 'spoilt'); END",
        false => "DROP TRIGGER spoilt",
    };
    db.execute_batch(sql).unwrap();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !spoilt && t.engine.probe_store().await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "it writes again");
    }
}

#[tokio::test]
async fn an_entry_whose_commit_fails_was_never_there() {
    let mut t = Case::on(Storage::embedded()).await;
    let keys = [of_feed(&t.feed, "w"), of_all("w")];
    for key in &keys {
        t.hook(key).await;
    }
    for before in ["", "a"] {
        if !before.is_empty() {
            t.give(&[before]).await;
        }
        spoil(&t, true).await;
        let lost = vec![gift("lost").parse()];
        let failed = t.engine.publish(&t.feed, lost, t.now).await;
        assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
        spoil(&t, false).await;
    }
    t.give(&["b"]).await;
    let all = t.take("g").await;
    assert_eq!(handed(&all), ["a", "b"]);
    let numbers = cursors(&all);
    assert_eq!(numbers[1].0, numbers[0].0 + 1);
    for key in &keys {
        let entries = t.open_job(key).await.unwrap().entries;
        assert_eq!(gifts(&entries), ["a", "b"]);
    }
}

#[tokio::test]
async fn a_reader_whose_commit_fails_was_never_there() {
    let mut t = Case::on(Storage::embedded()).await;
    t.give(&["a"]).await;
    spoil(&t, true).await;
    assert!(t.engine.claim_entries(&t.feed, &group_of("g"), ASK, t.now).await.is_err());
    for key in [of_feed(&t.feed, "w"), of_all("w")] {
        assert!(t.engine.swap_webhook(&key, None, Some(Hook::new(spec(), t.now)), t.now).await.is_err());
        assert_eq!(t.engine.read_webhook(&key).await.unwrap(), None);
    }
    spoil(&t, false).await;
    t.give(&["b"]).await;
    t.pass(BATCH_MS);
    t.no_job().await;
    assert_eq!(t.group("g").await, None);
    assert_eq!(t.engine.list_readers(Some(&t.feed)).await.unwrap(), []);
}

#[tokio::test]
async fn a_job_that_was_done_in_a_commit_that_failed_is_a_job_still() {
    let mut t = Case::on(Storage::embedded()).await;
    let key = of_feed(&t.feed, "w");
    t.hook(&key).await;
    t.give(&["a"]).await;
    t.pass(BATCH_MS);
    let lease = t.only_job().await;
    let through = t.open_job(&key).await.unwrap().entries.pop().map(|entry| entry.cursor);
    spoil(&t, true).await;
    let save = tipcast::engine::Save { through, ..Default::default() };
    let want = crate::support::readers::WANT;
    assert!(t.engine.save_job(&lease.job, save, want, t.now).await.is_err());
    spoil(&t, false).await;
    t.pass(crate::support::readers::TURN_MS);
    let job: Job = t.only_job().await.job;
    assert_eq!((job.reader, gifts(&t.deliver(&key).await)), (key.reader(), vec!["a".to_owned()]));
    assert_eq!(t.swap(&key, Some(1), None).await, Swapped::Done);
    assert!(
        !t.engine
            .list_readers(Some(&t.feed))
            .await
            .unwrap()
            .iter()
            .any(|(_, it)| matches!(it, Reader::Hook(_)))
    );
}
