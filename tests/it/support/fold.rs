//! What a strict client does with the frames of one feed (contract section 3): it folds them, and
//! panics with the whole story on anything that the protocol does not allow.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;
use tipcast::domain::Millis;

/// A client's picture of one feed.
#[derive(Clone, Debug)]
pub struct Fold {
    /// Which feed.
    pub feed: String,
    /// Its position, once it has one.
    pub at: Option<(String, u64)>,
    /// How long the list may be.
    pub capacity: u64,
    /// Newest first.
    pub rows: Vec<Value>,
    /// By name.
    pub drops: BTreeMap<String, Value>,
    /// The newest number of watchers.
    pub watchers: Option<u64>,
    /// `paused` and `muted`.
    pub controls: (bool, bool),
    /// By period.
    pub totals: BTreeMap<String, Value>,
    /// By name.
    pub goals: BTreeMap<String, Value>,
    /// Snapshots so far.
    pub snapshots: u64,
    /// Resumes so far.
    pub resumes: u64,
    /// Deltas so far.
    pub deltas: u64,
    /// Ops so far.
    pub ops: u64,
    /// Of these, what only counted.
    pub nones: u64,
    /// Keep-alives so far.
    pub keepalives: u64,
    /// What all snapshots said they skipped.
    pub skipped: u64,
    /// The newest goodbye.
    pub goodbye: Option<Value>,
    /// Frames, ops and fields that it does not know are no fault, as for any client but those of the tests.
    lenient: bool,
    /// True when the next frame must be a snapshot or a resume.
    fresh: bool,
    /// What was said when connecting.
    since: Option<(String, u64)>,
    story: VecDeque<String>,
}

macro_rules! fault {
    ($fold:expr, $($what:tt)*) => {
        panic!("{}\n{}", format_args!($($what)*), $fold.story())
    };
}

impl Fold {
    /// Of a client that knows nothing.
    pub fn new(feed: &str) -> Fold {
        Fold {
            feed: feed.to_owned(),
            at: None,
            capacity: 0,
            rows: vec![],
            drops: BTreeMap::new(),
            watchers: None,
            controls: (false, false),
            totals: BTreeMap::new(),
            goals: BTreeMap::new(),
            snapshots: 0,
            resumes: 0,
            deltas: 0,
            ops: 0,
            nones: 0,
            keepalives: 0,
            skipped: 0,
            goodbye: None,
            lenient: false,
            fresh: true,
            since: None,
            story: VecDeque::new(),
        }
    }

    /// Of a client that knows nothing, and takes what later versions of the protocol send.
    pub fn lenient(feed: &str) -> Fold {
        Fold { lenient: true, ..Fold::new(feed) }
    }

    /// Its position as `epoch:seq`.
    pub fn position(&self) -> Option<String> {
        self.at.as_ref().map(|(epoch, seq)| format!("{epoch}:{seq}"))
    }

    /// The seq, 0 before the first frame.
    pub fn seq(&self) -> u64 {
        self.at.as_ref().map_or(0, |(_, seq)| *seq)
    }

    /// The epoch, empty before the first frame.
    pub fn epoch(&self) -> &str {
        self.at.as_ref().map_or("", |(epoch, _)| epoch)
    }

    /// A new connection begins, on which this position was offered.
    pub fn connected(&mut self, since: Option<(String, u64)>) {
        self.remember(format!("-- connected, since {since:?}"));
        self.fresh = true;
        self.since = since;
    }

    /// Takes the next frame.
    pub fn take(&mut self, frame: &Value) {
        self.remember(format!("<- {frame}"));
        if frame["feed"] != *self.feed && frame["type"] != "goodbye" && !self.lenient {
            fault!(self, "a frame of another feed");
        }
        let kind = frame["type"].as_str().unwrap_or("");
        if self.lenient && !matches!(kind, "snapshot" | "resumed" | "delta" | "keepalive" | "goodbye") {
            return;
        }
        if self.fresh && !matches!(kind, "snapshot" | "resumed" | "goodbye") {
            fault!(self, "the first frame is a {kind:?}");
        }
        match kind {
            "snapshot" => self.snapshot(frame),
            "resumed" => self.resumed(frame),
            "delta" => self.delta(frame),
            "keepalive" => self.keepalive(frame),
            "presence" => {
                self.only(frame, &["type", "feed", "watchers"]);
                self.watchers = Some(self.number(frame, "watchers"));
            }
            "goodbye" => {
                if !(frame["reason"].is_string() && frame["reconnect_in_ms"].is_u64()) {
                    fault!(self, "a goodbye says why and for how long");
                }
                self.goodbye = Some(frame.clone());
            }
            _ => fault!(self, "a frame of unknown type {kind:?}"),
        }
    }

    fn snapshot(&mut self, frame: &Value) {
        self.only(
            frame,
            &[
                "type",
                "feed",
                "epoch",
                "seq",
                "capacity",
                "rows",
                "keepalive_ms",
                "skipped",
                "drops",
                "control",
                "totals",
                "goals",
            ],
        );
        let (epoch, seq) = (self.epoch_of(frame), self.number(frame, "seq"));
        let known = if self.fresh { self.since.clone() } else { self.at.clone() };
        let expected = match known {
            Some((mine, at)) if mine == epoch => {
                if seq < at {
                    fault!(self, "a stale snapshot: the client was at {at}");
                }
                seq - at
            }
            _ => 0,
        };
        let skipped = self.number(frame, "skipped");
        if skipped != expected {
            fault!(self, "skipped is {skipped}, not {expected}");
        }
        self.capacity = self.number(frame, "capacity");
        self.number(frame, "keepalive_ms");
        let Some(rows) = frame["rows"].as_array() else { fault!(self, "rows is an array") };
        if rows.len() as u64 > self.capacity || !(1..=100).contains(&self.capacity) {
            fault!(self, "{} rows in a list of {}", rows.len(), self.capacity);
        }
        if epoch == "0" && (seq != 0 || !rows.is_empty()) {
            fault!(self, "a feed that nobody wrote to is empty");
        }
        rows.iter().for_each(|row| self.check_row(row));
        let seqs: Vec<_> = rows.iter().map(|row| row["seq"].as_u64().unwrap()).collect();
        if !seqs.is_sorted_by(|a, b| a > b) || seqs.first().is_some_and(|first| *first > seq) {
            fault!(self, "rows are newest first: {seqs:?}");
        }
        self.rows = rows.clone();
        self.drops = self.drops_of(frame);
        self.controls = self.controls_of(frame);
        self.totals = self.totals_of(frame);
        self.goals = self.goals_of(frame);
        self.at = Some((epoch, seq));
        self.snapshots += 1;
        self.skipped += skipped;
        self.fresh = false;
    }

    fn resumed(&mut self, frame: &Value) {
        self.only(frame, &["type", "feed", "epoch", "seq", "keepalive_ms"]);
        let at = (self.epoch_of(frame), self.number(frame, "seq"));
        self.number(frame, "keepalive_ms");
        if !self.fresh || self.since.as_ref() != Some(&at) || self.at.as_ref() != Some(&at) {
            fault!(self, "resumed somewhere else than {:?}", self.since);
        }
        self.resumes += 1;
        self.fresh = false;
    }

    fn delta(&mut self, frame: &Value) {
        self.only(frame, &["type", "feed", "seq", "ops"]);
        let Some(ops) = frame["ops"].as_array().filter(|ops| !ops.is_empty()) else {
            fault!(self, "a delta has ops")
        };
        if self.epoch() == "0" {
            fault!(self, "the first change of a feed comes as a snapshot");
        }
        for op in ops {
            let seq = self.number(op, "seq");
            if seq != self.seq() + 1 {
                fault!(self, "a gap, a repeat or a reorder: {seq} after {}", self.seq());
            }
            self.apply(op, seq);
            self.at.as_mut().unwrap().1 = seq;
            self.ops += 1;
        }
        if self.number(frame, "seq") != self.seq() {
            fault!(self, "a delta's seq is its last op's");
        }
        self.deltas += 1;
    }

    fn apply(&mut self, op: &Value, seq: u64) {
        let find = |id: &Value| self.rows.iter().position(|row| row["row"] == *id);
        match op["op"].as_str().unwrap_or("") {
            "add" => {
                self.only(op, &["op", "seq", "row"]);
                let row = &op["row"];
                self.check_row(row);
                if row["seq"] != seq || row["rev"] != 1 || find(&row["row"]).is_some() {
                    fault!(self, "an add of a row that is not new");
                }
                self.rows.insert(0, row.clone());
                self.rows.truncate(self.capacity as usize);
            }
            "update" => {
                self.only(op, &["op", "seq", "row"]);
                let row = &op["row"];
                self.check_row(row);
                let Some(at) = find(&row["row"]) else { fault!(self, "an update of a row it doesn't have") };
                let old = &self.rows[at];
                let newer = row["rev"].as_u64() > old["rev"].as_u64();
                if !newer || row["seq"] != old["seq"] || row["at"] != old["at"] {
                    fault!(self, "an update keeps seq and at, and its rev grows; it was {old}");
                }
                self.rows[at] = row.clone();
            }
            "remove" => {
                self.only(op, &["op", "seq", "row", "reason"]);
                if !matches!(op["reason"].as_str(), Some("retracted" | "expired")) {
                    fault!(self, "a remove says why");
                }
                let Some(at) = find(&op["row"]) else { fault!(self, "a remove of a row it doesn't have") };
                self.rows.remove(at);
            }
            "drop" => {
                self.only(op, &["op", "seq", "drop"]);
                self.check_drop(&op["drop"]);
                let name = op["drop"]["drop"].as_str().unwrap().to_owned();
                self.drops.insert(name, op["drop"].clone());
            }
            "control" => {
                self.only(op, &["op", "seq", "action", "row"]);
                match op["action"].as_str().unwrap_or("") {
                    "pause" => self.controls.0 = true,
                    "resume" => self.controls.0 = false,
                    "mute" => self.controls.1 = true,
                    "unmute" => self.controls.1 = false,
                    "skip" => {}
                    "replay" if find(&op["row"]).is_some() => {}
                    _ if self.lenient => {}
                    action => fault!(self, "an action {action:?} that makes no sense here"),
                }
            }
            "totals" => {
                self.only(op, &["op", "seq", "totals"]);
                let periods = op["totals"].as_object().filter(|periods| !periods.is_empty());
                for (period, told) in periods.unwrap_or_else(|| fault!(self, "an op of totals has some")) {
                    self.totals.remove(period);
                    if !told.is_null() {
                        self.check_totals(period, told);
                        self.totals.insert(period.clone(), told.clone());
                    }
                }
            }
            "goal" if op["goal"].get("deleted").is_some() => {
                self.only(op, &["op", "seq", "goal"]);
                self.only(&op["goal"], &["goal", "deleted"]);
                let name = op["goal"]["goal"].as_str().unwrap_or_default();
                if op["goal"]["deleted"] != true || (self.goals.remove(name).is_none() && !self.lenient) {
                    fault!(self, "a goal is deleted that is not there");
                }
            }
            "goal" => {
                self.only(op, &["op", "seq", "goal"]);
                self.check_goal(&op["goal"]);
                self.goals.insert(op["goal"]["goal"].as_str().unwrap().to_owned(), op["goal"].clone());
            }
            "none" => {
                self.only(op, &["op", "seq"]);
                self.nones += 1;
            }
            _ if self.lenient => {}
            kind => fault!(self, "an op of unknown kind {kind:?}"),
        }
    }

    fn keepalive(&mut self, frame: &Value) {
        self.only(frame, &["type", "feed", "seq", "server_time"]);
        if self.number(frame, "seq") != self.seq() {
            fault!(self, "a keepalive of another seq than {}", self.seq());
        }
        self.time(frame, "server_time");
        self.keepalives += 1;
    }

    fn controls_of(&self, frame: &Value) -> (bool, bool) {
        let Some(control) = frame.get("control") else { return (false, false) };
        self.only(control, &["paused", "muted"]);
        let controls = (control["paused"] == true, control["muted"] == true);
        if controls == (false, false) {
            fault!(self, "control is there only when one of the two is true");
        }
        controls
    }

    fn totals_of(&self, frame: &Value) -> BTreeMap<String, Value> {
        let Some(told) = frame.get("totals") else { return BTreeMap::new() };
        let Some(told) = told.as_object().filter(|told| !told.is_empty() || self.lenient) else {
            fault!(self, "totals is an object, or absent when nothing is counted")
        };
        told.iter().for_each(|(period, told)| self.check_totals(period, told));
        told.iter().map(|(period, told)| (period.clone(), told.clone())).collect()
    }

    fn goals_of(&self, frame: &Value) -> BTreeMap<String, Value> {
        let Some(goals) = frame.get("goals") else { return BTreeMap::new() };
        let Some(goals) = goals.as_array().filter(|goals| !goals.is_empty() || self.lenient) else {
            fault!(self, "goals is an array, or absent when the feed has none")
        };
        goals.iter().for_each(|goal| self.check_goal(goal));
        goals.iter().map(|goal| (goal["goal"].as_str().unwrap().to_owned(), goal.clone())).collect()
    }

    /// Panics unless these are totals of the contract's shape, with leaders in order.
    pub fn check_totals(&self, period: &str, told: &Value) {
        self.only(told, &["since", "gifts", "units", "gifters", "points", "values", "leaders"]);
        self.time(told, "since");
        for field in ["gifts", "units", "gifters", "points"] {
            self.number(told, field);
        }
        let values = told["values"].as_array().is_some_and(|values| {
            values.iter().all(|value| value["currency"].is_string() && value["amount"].is_u64())
        });
        let lists = told.get("leaders").and_then(Value::as_object).into_iter().flatten();
        for (by, leaders) in lists {
            let leaders = leaders.as_array().unwrap();
            let mut last = u64::MAX;
            for (n, leader) in leaders.iter().enumerate() {
                self.only(leader, &["rank", "user", "score"]);
                let score = self.number(leader, "score");
                if leader["rank"] != n as u64 + 1
                    || score == 0
                    || score > last
                    || !leader["user"]["id"].is_string()
                {
                    fault!(self, "leaders by {by} are not in order: {leaders:?}");
                }
                last = score;
            }
            if leaders.len() > 10 {
                fault!(self, "ten leaders are told at most");
            }
        }
        let known = ["all", "session", "day", "week", "month"].contains(&period);
        if !(known || self.lenient) || !values {
            fault!(self, "totals of the wrong shape: {period} {told}");
        }
    }

    /// Panics unless `goal` has the shape of the contract.
    pub fn check_goal(&self, goal: &Value) {
        self.only(goal, &["goal", "title", "period", "by", "target", "value", "reached_at"]);
        let [target, value] = ["target", "value"].map(|field| self.number(goal, field));
        let named = ["goal", "title", "period", "by"].into_iter().all(|field| goal[field].is_string());
        if goal.get("reached_at").is_some() {
            self.time(goal, "reached_at");
        } else if value >= target {
            fault!(self, "a goal that is reached says when: {goal}");
        }
        if !named || target == 0 {
            fault!(self, "a goal of the wrong shape: {goal}");
        }
    }

    fn drops_of(&self, frame: &Value) -> BTreeMap<String, Value> {
        let Some(drops) = frame.get("drops") else { return BTreeMap::new() };
        let Some(drops) = drops.as_array().filter(|drops| !drops.is_empty()) else {
            fault!(self, "drops is an array, or absent when the feed has none")
        };
        drops.iter().for_each(|drop| self.check_drop(drop));
        let named = drops.iter().map(|drop| (drop["drop"].as_str().unwrap().to_owned(), drop.clone()));
        let named: BTreeMap<_, _> = named.collect();
        if named.len() != drops.len() {
            fault!(self, "a drop is there twice");
        }
        named
    }

    /// Panics unless `drop` has the shape of the contract, and its units add up.
    pub fn check_drop(&self, drop: &Value) {
        let fields = ["drop", "state", "total", "free", "held", "sold", "gift", "per_user", "hold_ttl_ms"];
        self.only(drop, &[&fields[..], &["max_holds_per_user", "value", "opens_at", "closes_at"]].concat());
        let [total, free, held, sold] =
            ["total", "free", "held", "sold"].map(|units| self.number(drop, units));
        let phase = drop["state"].as_str().unwrap_or("");
        let right = drop["drop"].is_string()
            && matches!(phase, "pending" | "open" | "sold_out" | "closed")
            && free + held + sold == total
            && (phase != "sold_out" || free == 0)
            && (phase != "open" || free > 0)
            && drop["gift"]["id"].is_string();
        if !right {
            fault!(self, "a drop of the wrong shape: {drop}");
        }
    }

    /// Panics unless `row` has the shape of the contract.
    pub fn check_row(&self, row: &Value) {
        let fields = [
            "row",
            "rev",
            "seq",
            "user",
            "gift",
            "count",
            "value",
            "message",
            "tier",
            "at",
            "updated_at",
            "expires_at",
            "combo",
            "drop",
            "test",
            "meta",
        ];
        self.only(row, &fields);
        let least_one = |field: &str| row[field].as_u64().is_some_and(|n| n >= 1);
        let named = |part: &Value, picture: &str| {
            let shown = part["name"].as_str().is_some_and(|name| !name.is_empty());
            self.only(part, &["id", "name", picture, "anonymous"]);
            part["id"].is_string() && shown && part.get(picture).is_none_or(Value::is_string)
        };
        let right = row["row"].as_str().is_some_and(|id| !id.is_empty())
            && ["rev", "seq", "count"].into_iter().all(least_one)
            && named(&row["user"], "avatar")
            && named(&row["gift"], "icon")
            && row.get("value").is_none_or(|v| v["amount"].is_u64() && v["currency"].is_string())
            && row.get("message").is_none_or(Value::is_string)
            && row.get("tier").is_none_or(|tier| tier.as_u64().is_some_and(|n| n <= 9))
            && row.get("combo").is_none_or(|c| c["id"].is_string() && c["count"].is_u64())
            && row.get("drop").is_none_or(|d| d["drop"].is_string() && d["left"].is_u64())
            && row.get("test").is_none_or(Value::is_boolean)
            && row.get("meta").is_none_or(Value::is_object);
        if !right {
            fault!(self, "a row of the wrong shape: {row}");
        }
        self.time(row, "at");
        self.time(row, "updated_at");
        if row.get("expires_at").is_some() {
            self.time(row, "expires_at");
        }
    }

    /// Panics unless the fold is what GET answered, field by field.
    pub fn assert_is(&self, feed: &Value) {
        let mine = (self.epoch(), self.seq(), self.capacity, &self.rows);
        let get = (feed["epoch"].as_str().unwrap(), feed["seq"].as_u64().unwrap());
        let theirs = (get.0, get.1, feed["capacity"].as_u64().unwrap(), feed["rows"].as_array().unwrap());
        let told = self.drops == self.drops_of(feed)
            && self.controls == self.controls_of(feed)
            && self.totals == self.totals_of(feed)
            && self.goals == self.goals_of(feed);
        if mine != theirs || !told {
            fault!(self, "the fold is not what GET says: {feed}\nthe fold: {:#?}", self.rows);
        }
    }

    /// The frames so far, the newest last.
    pub fn story(&self) -> String {
        let lines: Vec<_> = self.story.iter().cloned().collect();
        format!("watching {} at {:?} (capacity {}):\n{}", self.feed, self.at, self.capacity, lines.join("\n"))
    }

    /// Keeps a line for the report.
    pub fn remember(&mut self, mut line: String) {
        if line.len() > 2_000 {
            line.truncate(line.floor_char_boundary(2_000));
            line.push('…');
        }
        self.story.push_back(line);
        if self.story.len() > 40 {
            self.story.pop_front();
        }
    }

    fn only(&self, object: &Value, fields: &[&str]) {
        let Some(object) = object.as_object() else { fault!(self, "{object} is no object") };
        if self.lenient {
            return;
        }
        if let Some((name, value)) =
            object.iter().find(|(name, v)| !fields.contains(&name.as_str()) || v.is_null())
        {
            fault!(self, "a field that should not be there: {name}: {value}");
        }
    }

    fn number(&self, frame: &Value, field: &str) -> u64 {
        frame[field].as_u64().unwrap_or_else(|| fault!(self, "{field} is no number in {frame}"))
    }

    fn time(&self, frame: &Value, field: &str) {
        let text = frame[field].as_str().unwrap_or("");
        if Millis::parse(text).is_none_or(|at| at.to_string() != text) {
            fault!(self, "{field} is no time in UTC with milliseconds: {text:?}");
        }
    }

    fn epoch_of(&self, frame: &Value) -> String {
        let epoch = frame["epoch"].as_str().unwrap_or("");
        let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if !(1..=32).contains(&epoch.len()) || !epoch.bytes().all(legal) {
            fault!(self, "{epoch:?} is no epoch");
        }
        epoch.to_owned()
    }
}
