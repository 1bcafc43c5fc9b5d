//! Ids in their table.

use std::collections::BTreeMap;

use super::*;
use crate::domain::answer::GiftFate;

#[test]
fn an_id_gets_its_turn_to_be_forgotten_and_one_that_waits_never_does() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = open::open(&dir.path().join("tipcast.db")).unwrap();
    let mut ids = ids::Ids::default();
    let put = |ids: &mut ids::Ids, feed: i64, id: &str, until: i64| {
        let text = format!("{id} {} 0 e 1 e-1  {until} 1\n-\n", Fingerprint([7; 16]));
        ids.put(&db, feed, &[id_lines::IdLines::first(&text).unwrap()]).unwrap();
    };
    db.begin().unwrap();
    for n in 0..600 {
        let until = if n % 2 == 0 { 10 } else { 20 };
        put(&mut ids, n % 3, &format!("id-{n:03}"), until);
    }
    let left = || db.value::<i64>("SELECT sum(count) FROM ids", []).unwrap().unwrap_or(0);
    for (now, most) in [(9, 600), (10, 300), (19, 300), (20, 0)] {
        (0..9).for_each(|_| ids.forget(&db, Millis(now)).unwrap());
        assert_eq!(left(), most, "at {now}");
    }
    put(&mut ids, 1, "z", 40);
    put(&mut ids, 1, "y", 30);
    (0..9).for_each(|_| ids.forget(&db, Millis(30)).unwrap());
    assert_eq!(left(), 1);
}

#[test]
fn ids_come_back_whatever_the_order_in_which_they_came_and_their_rows_are_full() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = open::open(&dir.path().join("tipcast.db")).unwrap();
    let (mut ids, mut known) = (ids::Ids::default(), BTreeMap::new());
    let (mut seed, mut serial) = (11_u64, 0);
    for round in 0..60_i64 {
        let mut new = BTreeMap::new();
        for _ in 0..[1, 7, 90][round as usize % 3] {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            serial += 1;
            // Some follow each other, some come between others, some are there already.
            let id = match seed >> 62 {
                0 => format!("at-random-{:04x}", (seed >> 40) & 0xffff),
                1 => format!("again-{}", (seed >> 40) % 50),
                _ => format!("serial-{serial:06}"),
            };
            let text = format!("{id} {} 0 e {round} e-1  {} 1\n1::\n", Fingerprint([7; 16]), 1_000 + round);
            new.insert(id, text);
        }
        let lines: Vec<_> = new.values().map(|text| id_lines::IdLines::first(text).unwrap()).collect();
        ids.put(&db, 1 + round % 2, &lines).unwrap();
        known.extend(new.into_keys().map(|id| ((1 + round % 2, id), round)));
    }
    let ids = ids::Ids::read(&db).unwrap();
    for ((feed, id), round) in &known {
        let (it, until) = ids.find(&db, *feed, &id.parse().unwrap()).unwrap().unwrap();
        assert_eq!(until, Millis(1_000 + round), "{id} of {feed}");
        let GiftFate::Taken(answer) = it.fate else { panic!("{it:?}") };
        assert_eq!((answer.id.as_str(), answer.at.seq as i64), (id.as_str(), *round));
    }
    for id in ["a", "again", "serial-9", "zzz"] {
        assert_eq!(ids.find(&db, 1, &id.parse().unwrap()).unwrap(), None, "{id}");
    }
    let count = |sql: &str| db.value::<i64>(sql, []).unwrap().unwrap();
    assert_eq!(count("SELECT sum(count) FROM ids"), known.len() as i64);
    let rows = count("SELECT count(*) FROM ids");
    assert!(rows < known.len() as i64 / 5, "{} ids in {rows} rows", known.len());
    assert_eq!(count("SELECT max(length(body)) / 5000 FROM ids"), 0);
}

/// Numbers that look as if they were random, the same each time.
struct Mixed(u64);

impl Mixed {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 24
    }
}

/// Brings ids to the table, and to what is known.
fn put(db: &db::Db, ids: &mut ids::Ids, feed: i64, known: &mut BTreeMap<String, i64>, new: &[(String, i64)]) {
    db.begin().unwrap();
    let new: BTreeMap<_, _> = new.iter().cloned().collect();
    let text =
        |(id, until): (&String, &i64)| format!("{id} {} 0 e 1 e-1  {until} 1\n1::\n", Fingerprint([7; 16]));
    let texts: Vec<String> = new.iter().map(text).collect();
    let lines: Vec<_> = texts.iter().map(|text| id_lines::IdLines::first(text).unwrap()).collect();
    ids.put(db, feed, &lines).unwrap();
    known.extend(new);
}

/// Ids are where they are looked for, and nowhere else.
fn all_are_there(db: &db::Db, ids: &ids::Ids, feed: i64, known: &BTreeMap<String, i64>) {
    // Looking for each would take most of the time.
    for (id, until) in known.iter().step_by(1 + known.len() / 500) {
        let found = ids.find(db, feed, &id.parse().unwrap()).unwrap();
        assert_eq!(found.map(|(_, until)| until), Some(Millis(*until)), "{id}");
    }
    let count = db.value::<i64>("SELECT sum(count) FROM ids WHERE feed = ?1", [feed]).unwrap();
    assert_eq!(count, Some(known.len() as i64));
}

fn runs_of(db: &db::Db, feed: i64) -> usize {
    id_runs::of(db, feed).unwrap().len()
}

#[test]
fn random_ids_stand_in_few_runs_and_those_in_order_in_one() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = open::open(&dir.path().join("tipcast.db")).unwrap();
    let (mut ids, mut mixed) = (ids::Ids::read(&db).unwrap(), Mixed(3));
    let (mut random, mut ordered, mut nearly) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut most = 0;
    for round in 0..200_i64 {
        let some = (0..100).map(|_| (format!("{:010x}", mixed.next()), round)).collect::<Vec<_>>();
        put(&db, &mut ids, 1, &mut random, &some);
        let some = (0..100).map(|n| (format!("{:08}", 100 * round + n), round)).collect::<Vec<_>>();
        put(&db, &mut ids, 2, &mut ordered, &some);
        // As of several producers whose clocks are not the same.
        let jitter = |n: i64| 100 * round + n + (mixed.next() % 20) as i64;
        let some = (0..100).map(jitter).map(|n| (format!("{n:08}"), round)).collect::<Vec<_>>();
        put(&db, &mut ids, 3, &mut nearly, &some);
        most = most.max(runs_of(&db, 1));
        if round % 50 == 49 {
            all_are_there(&db, &ids, 1, &random);
        }
    }
    assert!((3..=30).contains(&most), "{most} runs");
    assert_eq!((runs_of(&db, 2), runs_of(&db, 3)), (1, 1));
    all_are_there(&db, &ids, 2, &ordered);
    all_are_there(&db, &ids, 3, &nearly);
    let count = |sql: &str| db.value::<i64>(sql, []).unwrap().unwrap();
    let rows = count("SELECT count(*) FROM ids WHERE feed = 1");
    assert!(rows < random.len() as i64 / 15, "{} ids in {rows} rows", random.len());
    db.commit().unwrap();
    // As the next process knows them.
    all_are_there(&db, &ids::Ids::read(&db).unwrap(), 1, &random);
}

#[test]
fn few_random_ids_behind_many_in_order_do_not_pile_runs_up() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = open::open(&dir.path().join("tipcast.db")).unwrap();
    let (mut ids, mut mixed, mut known) = (ids::Ids::read(&db).unwrap(), Mixed(9), BTreeMap::new());
    for piece in 0..40 {
        let some: Vec<_> = (0..5_000).map(|n| (format!("{:010x}", (5_000 * piece + n) << 21), 9)).collect();
        put(&db, &mut ids, 1, &mut known, &some);
    }
    assert_eq!(runs_of(&db, 1), 1);
    let mut most = 0;
    for _ in 0..200 {
        let some: Vec<_> = (0..100).map(|_| (format!("{:010x}", mixed.next()), 9)).collect();
        put(&db, &mut ids, 1, &mut known, &some);
        most = most.max(runs_of(&db, 1));
    }
    assert!((8..=30).contains(&most), "{most} runs");
    all_are_there(&db, &ids, 1, &known);
}

#[test]
fn an_id_that_is_there_already_is_written_where_it_is_and_forgotten_once() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = open::open(&dir.path().join("tipcast.db")).unwrap();
    let (mut ids, mut mixed, mut known) = (ids::Ids::read(&db).unwrap(), Mixed(5), BTreeMap::new());
    for round in 0..60 {
        // As a gift that waits is remembered, until it is shown.
        let mut some: Vec<_> = (0..80).map(|_| (format!("{:010x}", mixed.next()), i64::MAX)).collect();
        let again = known.keys().skip(round % 7).step_by(9).take(20);
        some.extend(again.map(|id: &String| (id.clone(), 100)));
        put(&db, &mut ids, 1, &mut known, &some);
    }
    all_are_there(&db, &ids, 1, &known);
    assert!(runs_of(&db, 1) > 2);
    (0..200).for_each(|_| ids.forget(&db, Millis(100)).unwrap());
    known.retain(|_, until| *until > 100);
    all_are_there(&db, &ids, 1, &known);
}

#[test]
fn ids_that_are_read_in_pieces_are_known_at_each_moment() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = open::open(&dir.path().join("tipcast.db")).unwrap();
    let (mut ids, mut mixed, mut known) = (ids::Ids::read(&db).unwrap(), Mixed(7), BTreeMap::new());
    for _ in 0..20 {
        let some: Vec<_> = (0..60).map(|_| (format!("{:010x}", mixed.next()), 9)).collect();
        put(&db, &mut ids, 1, &mut known, &some);
    }
    let mut ids = ids::Ids::default();
    ids.known = known_ids::KnownIds::unread(0);
    ids.known.piece = 8;
    let mut pieces = 0;
    while ids.known.must_read() {
        ids.learn(&db).unwrap();
        // Runs become others meanwhile, and those that are known are answered to again.
        let mut some: Vec<_> = (0..60).map(|_| (format!("{:010x}", mixed.next()), 9)).collect();
        some.extend(known.keys().step_by(50).map(|id| (id.clone(), 9)));
        put(&db, &mut ids, 1, &mut known, &some);
        all_are_there(&db, &ids, 1, &known);
        pieces += 1;
    }
    assert!(pieces > 5, "{pieces}");
    assert_eq!(ids.find(&db, 1, &"none".parse().unwrap()).unwrap(), None);
}
