//! Any interleaving of changes, replacements, slow takes and reconnects, folded strictly.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::domain::{Epoch, Gift, Op, RemoveReason, Row, RowId, Tag};
use crate::live::frame::Encoding;

const CAPACITY: u64 = 4;

const PLAIN: Encoding = Encoding::new(0, |frame| frame.json().clone());

/// What may happen to a board and its watchers, in any order.
#[derive(Clone, Debug)]
enum Event {
    Append(Vec<Kind>),
    Replace,
    Limit(u64),
    Take(usize, bool),
    Reconnect(usize),
}

/// What a change does.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Adds,
    /// The oldest row.
    TakesBack,
    /// Announces a goal.
    Counts,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![6 => Just(Kind::Adds), 2 => Just(Kind::TakesBack), 2 => Just(Kind::Counts)]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => prop::collection::vec(kinds(), 1..300).prop_map(Event::Append),
        1 => Just(Event::Replace),
        1 => (0..50u64).prop_map(Event::Limit),
        6 => (0..3usize, any::<bool>()).prop_map(|(who, joined)| Event::Take(who, joined)),
        2 => (0..3usize).prop_map(Event::Reconnect),
    ];
    prop::collection::vec(event, 1..60)
}

struct Server {
    board: Board,
    list: FeedList,
}

impl Server {
    fn change(&mut self, kind: Kind) -> Change {
        self.list.at.seq += 1;
        let seq = self.list.at.seq;
        let op = match (kind, self.list.rows.back()) {
            (Kind::Counts, _) => Op::Goal("g".parse().unwrap(), None),
            (Kind::TakesBack, Some(oldest)) => {
                let (row, reason) = (oldest.id.clone(), RemoveReason::Retracted);
                self.list.rows.pop_back();
                Op::Remove { row, reason }
            }
            (Kind::Adds, _) | (Kind::TakesBack, None) => {
                let raw = r#"{"user":{"id":"u","name":"u"},"gift":{"id":"g","name":"g"}}"#;
                let gift = Gift::parse(serde_json::from_str(raw).unwrap(), None).unwrap();
                let id = RowId::of(&self.list.at.epoch, seq);
                let row = Arc::new(Row::start(id, seq, &gift));
                self.list.rows.push_front(row.clone());
                self.list.rows.truncate(CAPACITY as usize);
                Op::Add(row)
            }
        };
        let epoch = self.list.at.epoch.clone();
        Change { epoch, seq, prev: Tag::MIN, tag: Tag::MIN, op }
    }
}

struct Client {
    cursor: Cursor,
    omit: Omit,
    seq: u64,
    rows: Vec<String>,
}

impl Client {
    /// Folds strictly: a gap, a repeat or a reorder panics.
    fn fold(&mut self, frame: &Frame) {
        let bytes = frame.bytes(PLAIN);
        let json: Value = serde_json::from_slice(&bytes).unwrap();
        let id = |row: &Value| row["row"].as_str().unwrap().to_owned();
        match json["type"].as_str().unwrap() {
            "snapshot" => {
                let seq = json["seq"].as_u64().unwrap();
                assert!(seq >= self.seq, "a stale snapshot");
                self.seq = seq;
                self.rows = json["rows"].as_array().unwrap().iter().map(id).collect();
            }
            "resumed" => assert_eq!(json["seq"], self.seq),
            _ => {
                for op in json["ops"].as_array().unwrap() {
                    self.seq += 1;
                    assert_eq!(op["seq"], self.seq);
                    match op["op"].as_str().unwrap() {
                        "add" => {
                            self.rows.insert(0, id(&op["row"]));
                            self.rows.truncate(CAPACITY as usize);
                        }
                        "remove" => self.rows.retain(|row| op["row"] != **row),
                        "goal" => assert_eq!(self.omit, Omit::Nothing),
                        other => assert_eq!((other, self.omit), ("none", Omit::Totals)),
                    }
                }
                assert_eq!(json["seq"], self.seq);
            }
        }
    }

    fn take(&mut self, board: &Board, joined: bool) -> bool {
        let frames = match board.take(&mut self.cursor, joined, self.omit) {
            CursorDue::Nothing => return false,
            CursorDue::Frames(frames) => frames,
            CursorDue::Snapshot(frame) => vec![frame],
        };
        frames.iter().for_each(|frame| self.fold(frame));
        assert_eq!(self.cursor.at.seq, self.seq);
        true
    }
}

#[test]
fn a_watcher_that_has_seen_more_than_the_list_that_comes_waits_for_a_newer_one() {
    let epoch: Epoch = "e".parse().unwrap();
    let board = Board::new("f".parse().unwrap(), Arc::default());
    let list = |seq| FeedList { at: Position { epoch: epoch.clone(), seq }, ..FeedList::default() };
    board.replace(&list(5), CAPACITY);
    // The store's history brought it to 8, which this node has not heard of.
    let mut cursor = board.cursor(list(8).at);
    for seq in [6, 7] {
        board.replace(&list(seq), CAPACITY);
        assert!(matches!(board.take(&mut cursor, false, Omit::Nothing), CursorDue::Nothing), "{seq}");
    }
    board.replace(&list(9), CAPACITY);
    assert!(matches!(board.take(&mut cursor, false, Omit::Nothing), CursorDue::Snapshot(_)));
    assert_eq!(cursor.at.seq, 9);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_interleaving_gives_every_watcher_the_same_list(events in events()) {
        let epoch: Epoch = "e".parse().unwrap();
        let board = Board::new("f".parse().unwrap(), Arc::default());
        let at = Position { epoch: epoch.clone(), seq: 0 };
        let mut server = Server { board, list: FeedList { at, ..FeedList::default() } };
        server.board.replace(&server.list, CAPACITY);
        let (cursor, _) = server.board.snapshot(None, Omit::Nothing);
        let client = |omit| Client { cursor: cursor.clone(), omit, seq: 0, rows: vec![] };
        let mut clients = [client(Omit::Nothing), client(Omit::Totals), client(Omit::Totals)];
        for event in events {
            match event {
                Event::Append(kinds) => {
                    let changes: Vec<Change> = kinds.into_iter().map(|kind| server.change(kind)).collect();
                    server.board.append(&changes, &server.list);
                }
                Event::Replace => {
                    server.list.at.seq += 1;
                    server.board.replace(&server.list, CAPACITY);
                }
                Event::Limit(history) => server.board.limit(history),
                Event::Take(who, joined) => drop(clients[who].take(&server.board, joined)),
                Event::Reconnect(who) => {
                    let client = &mut clients[who];
                    let since = Position { epoch: epoch.clone(), seq: client.seq };
                    // What the ring does not know, the store's history or a snapshot brings.
                    if let Start::At(cursor, frame) = server.board.start(Some(&since), client.omit) {
                        client.cursor = cursor;
                        client.fold(&frame);
                    }
                }
            }
        }
        let list: Vec<&str> = server.list.rows.iter().map(|row| row.id.as_str()).collect();
        for client in &mut clients {
            while client.take(&server.board, false) {}
            prop_assert_eq!(client.seq, server.list.at.seq);
            prop_assert_eq!(&client.rows, &list);
        }
    }
}
