//! A plain recount of the ledger: what was taken and taken back, in order, added up anew for every question.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use tipcast::domain::{Ask, Cursor, EntryStatus, GroupId, MAX_SAFE, Millis, RowId, Start};

use crate::support::case::Case;

/// One gift that counted, or was taken back.
#[derive(Clone, Debug)]
pub struct Event {
    pub id: String,
    pub user: String,
    pub row: Option<RowId>,
    pub units: u64,
    pub points: u64,
    pub money: Option<(u64, String)>,
    pub ranked: bool,
    /// When the gift counted, also of one that was taken back.
    pub at: Millis,
    pub back: bool,
}

impl Event {
    fn amount(&self, by: &str) -> u64 {
        match by {
            "units" => self.units,
            "points" => self.points,
            currency => self.money.as_ref().filter(|(_, of)| of == currency).map_or(0, |(amount, _)| *amount),
        }
    }
}

pub struct Recount {
    points: BTreeMap<String, u64>,
    pub events: Vec<Event>,
    gone: HashSet<String>,
    /// Explicit combos by user, gift and id: how far they are, until when that is known.
    combos: HashMap<String, (Millis, BTreeMap<String, u64>)>,
    /// Rows of combos that have ended.
    ended: HashSet<RowId>,
    group: GroupId,
}

impl Recount {
    pub fn new(points: &[(&str, u64)]) -> Recount {
        Recount {
            points: points.iter().map(|(currency, each)| (currency.to_string(), *each)).collect(),
            events: vec![],
            gone: HashSet::new(),
            combos: HashMap::new(),
            ended: HashSet::new(),
            group: "recount".parse().unwrap(),
        }
    }

    /// Takes in what is new in the ledger.
    pub async fn read(&mut self, t: &Case) {
        loop {
            let ask = Ask { max: 1000, lease_ms: 600_000, from: Start::Start };
            let taken = t.engine.claim_entries(&t.feed, &self.group, ask, t.now).await.unwrap().unwrap();
            if taken.entries.is_empty() {
                return;
            }
            let cursors: Vec<Cursor> = taken.entries.iter().map(|handed| handed.entry.cursor).collect();
            for handed in taken.entries {
                let entry = handed.entry;
                let event: Value = serde_json::from_str(&entry.gift).unwrap();
                self.entry(entry.status, entry.row, entry.at, &event);
            }
            t.engine.ack_entries(&t.feed, &self.group, &cursors, t.now).await.unwrap();
        }
    }

    fn entry(&mut self, status: EntryStatus, row: Option<RowId>, at: Millis, event: &Value) {
        let id = event["id"].as_str().unwrap_or_default().to_owned();
        if status == EntryStatus::Goal {
            return;
        }
        if status == EntryStatus::Retracted {
            // An id that came again after its window is another gift's: it is the newest that is taken back.
            let newest = self.events.iter().rev().find(|known| !known.back && known.id == id);
            let Some((at, row)) = newest.map(|known| (known.at, known.row.clone())) else { return };
            return self.undo(|known| known.id == id && known.at == at && known.row == row);
        }
        let money = event
            .get("value")
            .map(|value| (value["amount"].as_u64().unwrap(), value["currency"].as_str().unwrap().to_owned()));
        let (mut units, mut money) = (event["count"].as_u64().unwrap(), money);
        if let Some(combo) = event.get("combo") {
            let row = row.clone().unwrap();
            if self.ended.contains(&row) {
                return;
            }
            if combo["end"] == true {
                self.ended.insert(row);
            }
            let key = format!("{} {} {}", event["user"]["id"], event["gift"]["id"], combo["id"]);
            let (until, known) = self.combos.entry(key).or_default();
            if at >= *until {
                known.clear();
            }
            *until = at.plus(86_400_000);
            let mut grown = |what: &str, is: u64| {
                let was = known.entry(what.to_owned()).or_default();
                let more = is.saturating_sub(*was);
                *was += more;
                more
            };
            units = grown("", combo["count"].as_u64().unwrap().max(1));
            money = money.map(|(amount, currency)| (grown(&currency, amount), currency));
            if units == 0 && money.as_ref().is_none_or(|(amount, _)| *amount == 0) {
                return;
            }
        }
        let points = money.as_ref().map_or(0, |(amount, currency)| {
            amount.saturating_mul(self.points.get(currency).copied().unwrap_or(0)).min(MAX_SAFE)
        });
        self.events.push(Event {
            id,
            user: event["user"]["id"].as_str().unwrap().to_owned(),
            row: row.filter(|_| status != EntryStatus::Suppressed),
            units,
            points,
            money,
            ranked: event["user"]["anonymous"] != true,
            at,
            back: false,
        });
    }

    /// A row was taken back whole.
    pub fn undo_row(&mut self, row: &RowId) {
        self.undo(|known| known.row.as_ref() == Some(row));
    }

    fn undo(&mut self, which: impl Fn(&Event) -> bool) {
        let gone: Vec<Event> =
            self.events.iter().filter(|known| !known.back && which(known)).cloned().collect();
        for known in gone {
            if self.gone.insert(format!("{} {:?} {}", known.id, known.row, known.at.0)) {
                self.events.push(Event { back: true, ..known });
            }
        }
    }

    fn within(&self, from: Millis, to: Millis) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| (from..to).contains(&event.at))
    }

    /// A sum grows up to 2^53-1, and shrinks down to 0.
    fn move_by(sum: &mut u64, amount: u64, back: bool) {
        *sum = if back { sum.saturating_sub(amount) } else { sum.saturating_add(amount).min(MAX_SAFE) };
    }

    /// `gifts units gifters points CURRENCY=AMOUNT…` of what counted in this time.
    pub fn totals(&self, from: Millis, to: Millis) -> String {
        let mut gifts: BTreeMap<&str, i64> = BTreeMap::new();
        let (mut units, mut points, mut currencies) = (0, 0, BTreeMap::new());
        for event in self.within(from, to) {
            *gifts.entry(&event.user).or_default() += if event.back { -1 } else { 1 };
            Recount::move_by(&mut units, event.units, event.back);
            Recount::move_by(&mut points, event.points, event.back);
            if let Some((amount, currency)) = &event.money {
                Recount::move_by(currencies.entry(currency.as_str()).or_default(), *amount, event.back);
            }
        }
        let gifters = gifts.values().filter(|n| **n > 0).count();
        let values: Vec<String> = currencies.iter().map(|(by, sum)| format!(" {by}={sum}")).collect();
        let gifts: i64 = gifts.values().sum();
        format!("{gifts} {units} {gifters} {points}{}", values.concat())
    }

    /// Users and scores, the highest first, and equal ones by user.
    pub fn ranking(&self, from: Millis, to: Millis, by: &str) -> Vec<(String, u64)> {
        let mut scores: BTreeMap<&str, u64> = BTreeMap::new();
        for event in self.within(from, to).filter(|event| event.ranked) {
            Recount::move_by(scores.entry(&event.user).or_default(), event.amount(by), event.back);
        }
        let mut ranking: Vec<_> = scores.into_iter().filter(|(_, score)| *score > 0).collect();
        ranking.sort_by_key(|(_, score)| std::cmp::Reverse(*score));
        ranking.into_iter().map(|(user, score)| (user.to_owned(), score)).collect()
    }
}
