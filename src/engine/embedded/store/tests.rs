use super::*;
use crate::domain::RowId;

fn lock(row: &str, until: i64) -> Lock {
    Lock { row: row.parse().unwrap(), until: Millis(until) }
}

fn remembered(id: &str) -> Remembered {
    let at = Position { epoch: "e".parse().unwrap(), seq: 1 };
    let row: RowId = "e-1".parse().unwrap();
    let answer = Answer { status: Status::Accepted, id: id.parse().unwrap(), at, row, count: None };
    Remembered { fingerprint: Fingerprint([7; 16]), fate: GiftFate::Taken(answer), part: Part::Unknown }
}

fn ids(store: &Store) -> Vec<String> {
    let mut query = store.db.prepare("SELECT id FROM ids ORDER BY id").unwrap();
    query.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_file_of_the_first_layout_is_brought_up_to_date_with_what_it_holds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tipcast.db");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(&format!(
        "{TABLES} PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version=1;
        INSERT INTO feeds VALUES (1, 'f', 'e', 0, 0, 10, '{{}}', '');
        INSERT INTO changes VALUES (1, 1, '1 0 0 reset' || char(10));
        INSERT INTO locks VALUES (1, 'key', 'e-1', 9);
        INSERT INTO ids VALUES (1, 'a', zeroblob(16), 0, 'e', 1, 'e-1', NULL, 9);"
    ))
    .unwrap();
    drop(old);
    for _ in 0..2 {
        let store = Store::open(&path).unwrap();
        let feed = store.feed("f", &Policy::default()).unwrap().unwrap();
        assert_eq!((feed.state.list.at.seq, feed.state.locks.get("key")), (1, Some(&lock("e-1", 9))));
        let known = store.remembered(1, &"a".parse().unwrap(), Millis(8)).unwrap().unwrap();
        assert!(matches!(known.fate, GiftFate::Taken(answer) if answer.row.as_str() == "e-1"));
    }
}

#[test]
fn locks_come_back_from_beside_the_changes_after_the_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("tipcast.db")).unwrap();
    let mut state = FeedState::default();
    state.list.at = "e:1".parse().unwrap();
    let no = store.checkpoint("f", &state, 10).unwrap();
    let key = r#"["a b","c"]"#;
    let mut chunk = |seq, until| {
        let op = crate::domain::Op::Reset;
        let change = Change { epoch: state.list.at.epoch.clone(), seq, prev: 0, tag: 0, op };
        let mut locks = String::new();
        push_lock(&mut locks, key, &lock("e-1", until));
        push_lock(&mut locks, "other", &lock("e-1", 5));
        store.append(no, &[change], &locks).unwrap();
        state.list.at.seq = seq;
    };
    chunk(1, 7);
    chunk(2, 8);
    chunk(3, 9);
    store.lock(no, "other", &lock("e-0", 4)).unwrap();
    let feed = store.feed("f", &Policy::default()).unwrap().unwrap();
    assert_eq!(feed.state.locks, [(key.into(), lock("e-1", 9)), ("other".into(), lock("e-1", 5))].into());
    assert_eq!(feed.later_locks, [key, "other", key, "other"]);
    store.forget_locks(no, Millis(4)).unwrap();
    store.checkpoint("f", &state, 10).unwrap();
    let feed = store.feed("f", &Policy::default()).unwrap().unwrap();
    assert!(feed.state.locks.is_empty() && feed.later_locks.is_empty());
}

#[test]
fn every_id_gets_its_turn_to_be_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("tipcast.db")).unwrap();
    for (n, id) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        store.remember(n as i64, &remembered(id), Millis(if id == "b" { 10 } else { 1 })).unwrap();
    }
    store.forget_ids(Millis(0), 9).unwrap();
    assert_eq!(ids(&store).len(), 5);
    let mut next = |now, left: &[&str]| {
        store.forget_ids(Millis(now), 2).unwrap();
        assert_eq!(ids(&store), left);
    };
    next(1, &["b", "c", "d", "e"]);
    next(1, &["b", "e"]);
    // The end of the table, then from its beginning again: a turn in which something went proves little.
    next(1, &["b"]);
    next(9, &["b"]);
    next(10, &[]);
    store.remember(1, &remembered("z"), Millis(20)).unwrap();
    store.remember(1, &remembered("y"), Millis(15)).unwrap();
    store.forget_ids(Millis(15), 9).unwrap();
    assert_eq!(ids(&store), ["z"]);
}
