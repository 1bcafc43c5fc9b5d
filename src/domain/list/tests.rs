//! The shared vectors (docs/protocol/vectors), run on the fold of this crate.

use serde_json::Value;

use super::*;
use crate::domain::tally::{GoalSpec, GoalView, Leader, Measure, Period, PeriodView};
use crate::domain::{Action, Control, DropSpec, DropView, Millis, RemoveReason, RowId, json};

/// What the vectors say is to be done after a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Do {
    Show,
    Nothing,
    Reconnect,
    Restart,
}

/// A client of one feed: the fold, and what is around it.
#[derive(Default)]
struct Client {
    list: FeedList,
    capacity: u64,
    /// False when the list's position must not be offered.
    known: bool,
    /// The connection has begun with a snapshot or a resumed.
    begun: bool,
}

impl Client {
    fn position(&self) -> Option<String> {
        self.known.then(|| self.list.at.to_string())
    }

    fn missed(&self) -> Do {
        if self.known { Do::Reconnect } else { Do::Restart }
    }

    fn restart(&mut self) -> Do {
        self.known = false;
        Do::Restart
    }

    fn take(&mut self, frame: &Value) -> Do {
        match frame["type"].as_str().unwrap() {
            "snapshot" => {
                let rows = frame["rows"].as_array().unwrap().iter().map(row);
                let drops = frame["drops"].as_array().into_iter().flatten().map(drop_view);
                self.list = FeedList {
                    at: Position {
                        epoch: text(&frame["epoch"]).parse().unwrap(),
                        seq: number(&frame["seq"]),
                    },
                    rows: rows.collect(),
                    drops: drops.map(|view| (view.drop.clone(), view)).collect(),
                    controls: Controls {
                        paused: frame["control"]["paused"] == true,
                        muted: frame["control"]["muted"] == true,
                    },
                    totals: told_totals(&frame["totals"])
                        .into_iter()
                        .filter_map(|(period, view)| Some((period, view?)))
                        .collect(),
                    goals: frame["goals"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(|goal| (goal_view(goal).goal.clone(), goal_view(goal)))
                        .collect(),
                };
                self.capacity = number(&frame["capacity"]);
                (self.known, self.begun) = (true, true);
                Do::Show
            }
            "resumed" => {
                self.begun =
                    format!("{}:{}", text(&frame["epoch"]), frame["seq"]) == self.list.at.to_string();
                if self.begun { Do::Nothing } else { self.restart() }
            }
            "delta" if self.begun => self.delta(frame),
            "keepalive" if self.begun && number(&frame["seq"]) == self.list.at.seq => Do::Nothing,
            "delta" | "keepalive" => self.missed(),
            _ => Do::Nothing,
        }
    }

    fn delta(&mut self, frame: &Value) -> Do {
        let mut list = self.list.clone();
        for op in frame["ops"].as_array().unwrap() {
            let (epoch, seq) = (list.at.epoch.clone(), number(&op["seq"]));
            let folded = match known(op) {
                Some(op) => list.fold(&Change { epoch, seq, prev: 0, tag: 0, op }, self.capacity),
                // An op of a later version: a watcher counts it.
                None if list.leads_to(&epoch, seq) => {
                    list.at.seq = seq;
                    Ok(())
                }
                None => Err(CannotFold::NotNext),
            };
            match folded {
                Ok(()) => {}
                Err(CannotFold::NotNext) => return Do::Reconnect,
                Err(CannotFold::Misfit) => return self.restart(),
            }
        }
        if list.at.seq != number(&frame["seq"]) {
            return Do::Reconnect;
        }
        self.list = list;
        Do::Show
    }
}

fn known(op: &Value) -> Option<Op> {
    Some(match op["op"].as_str().unwrap() {
        "add" => Op::Add(row(&op["row"])),
        "update" => Op::Update(row(&op["row"])),
        "remove" => Op::Remove {
            row: text(&op["row"]).parse().unwrap(),
            reason: match op["reason"].as_str().unwrap() {
                "expired" => RemoveReason::Expired,
                _ => RemoveReason::Retracted,
            },
        },
        "drop" => Op::Drop(drop_view(&op["drop"])),
        "control" => Op::Control(Control { action: Action::of(text(&op["action"]))?, row: None }),
        "totals" => Op::Totals(told_totals(&op["totals"])),
        "goal" if op["goal"]["deleted"] == true => Op::Goal(text(&op["goal"]["goal"]).parse().unwrap(), None),
        "goal" => Op::Goal(goal_view(&op["goal"]).goal.clone(), Some(goal_view(&op["goal"]))),
        _ => return None,
    })
}

fn told_totals(json: &Value) -> Vec<(Period, Option<Arc<PeriodView>>)> {
    let view = |json: &Value| {
        let leaders = json["leaders"].as_object().into_iter().flatten().map(|(by, leaders)| {
            let leader = |json: &Value| Leader {
                score: number(&json["score"]),
                user: json["user"].to_string().into(),
            };
            (Measure::of(by).unwrap(), leaders.as_array().unwrap().iter().map(leader).collect())
        });
        let value = |value: &Value| (text(&value["currency"]).to_owned(), number(&value["amount"]));
        Arc::new(PeriodView {
            since: Millis::parse(text(&json["since"])).unwrap(),
            gifts: number(&json["gifts"]),
            units: number(&json["units"]),
            gifters: number(&json["gifters"]),
            points: number(&json["points"]),
            values: json["values"].as_array().unwrap().iter().map(value).collect(),
            leaders: leaders.collect(),
        })
    };
    let json = json.as_object().into_iter().flatten();
    json.map(|(period, json)| (period.parse().unwrap(), (!json.is_null()).then(|| view(json)))).collect()
}

fn goal_view(json: &Value) -> Arc<GoalView> {
    let spec = GoalSpec {
        title: text(&json["title"]).to_owned(),
        period: text(&json["period"]).parse().unwrap(),
        by: Measure::of(text(&json["by"])).unwrap(),
        target: number(&json["target"]),
    };
    let reached_at = json.get("reached_at").map(|at| Millis::parse(text(at)).unwrap());
    let (goal, value) = (text(&json["goal"]).parse().unwrap(), number(&json["value"]));
    Arc::new(GoalView { goal, spec, value, reached_at })
}

fn row(json: &Value) -> Arc<Row> {
    let id: RowId = text(&json["row"]).parse().unwrap();
    let time = |field: &str| Millis::parse(text(&json[field])).unwrap();
    Arc::new(Row {
        id,
        rev: number(&json["rev"]),
        seq: number(&json["seq"]),
        at: time("at"),
        updated_at: time("updated_at"),
        expires_at: json.get("expires_at").map(|_| time("expires_at")),
        count: number(&json["count"]),
        value: json.get("value").map(|value| crate::domain::Value {
            amount: number(&value["amount"]),
            currency: text(&value["currency"]).into(),
        }),
        combo: None,
        drop: None,
        test: false,
        user: json["user"].to_string().into(),
        gift: json["gift"].to_string().into(),
        message: None,
        tier: None,
        meta: None,
    })
}

fn drop_view(json: &Value) -> Arc<DropView> {
    let spec = serde_json::json!({"gift": json["gift"], "total": json["total"]}).to_string();
    let spec = DropSpec::parse(json::syntax(spec.as_bytes()).unwrap()).unwrap();
    Arc::new(DropView {
        drop: text(&json["drop"]).parse().unwrap(),
        phase: text(&json["state"]).parse().unwrap(),
        spec,
        free: number(&json["free"]),
        held: number(&json["held"]),
        sold: number(&json["sold"]),
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is a string"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a number"))
}

fn shown(list: &FeedList) -> Vec<String> {
    let with_rev = |row: &Arc<Row>| match row.rev {
        1 => row.id.to_string(),
        rev => format!("{}@{rev}", row.id),
    };
    list.rows.iter().map(with_rev).collect()
}

fn run(vector: &Value) -> Result<(), String> {
    let mut client = Client::default();
    for (n, step) in vector["steps"].as_array().unwrap().iter().enumerate() {
        let fail = |what: String| Err(format!("{}, step {n}: {what}", vector["name"]));
        let Some(frame) = step.get("frame") else {
            client.begun = false;
            if serde_json::json!(client.position()) != step["connect"] {
                return fail(format!("offers {:?}", client.position()));
            }
            continue;
        };
        let wanted = match text(&step["do"]) {
            "show" => Do::Show,
            "nothing" => Do::Nothing,
            "reconnect" => Do::Reconnect,
            "restart" => Do::Restart,
            other => return fail(format!("{other} is nothing to do")),
        };
        let done = client.take(frame);
        if done != wanted {
            return fail(format!("{done:?}, not {wanted:?}"));
        }
        let got = serde_json::json!([client.position(), shown(&client.list)]);
        if got != serde_json::json!([step["position"], step["rows"]]) {
            return fail(format!("{got}"));
        }
        if let Some(drops) = step.get("drops") {
            let got: Vec<String> =
                client.list.drops.values().map(|drop| format!("{}={}", drop.drop, drop.free)).collect();
            if serde_json::json!(got) != *drops {
                return fail(format!("drops {got:?}"));
            }
        }
        if let Some(control) = step.get("control") {
            let Controls { paused, muted } = client.list.controls;
            if serde_json::json!({"paused": paused, "muted": muted}) != *control {
                return fail(format!("paused {paused}, muted {muted}"));
            }
        }
        for (field, got) in [
            (
                "gifts",
                client.list.totals.iter().map(|(period, view)| format!("{period}={}", view.gifts)).collect(),
            ),
            (
                "goals",
                client.list.goals.values().map(|goal| format!("{}={}", goal.goal, goal.value)).collect(),
            ),
        ] {
            let got: Vec<String> = got;
            if step.get(field).is_some_and(|wanted| serde_json::json!(got) != *wanted) {
                return fail(format!("{field} {got:?}"));
            }
        }
        for (field, of) in [
            ("counts", (|row: &Row| Some(row.count)) as fn(&Row) -> Option<u64>),
            ("amounts", |row| row.value.as_ref().map(|value| value.amount)),
        ] {
            for (id, wanted) in step.get(field).and_then(Value::as_object).into_iter().flatten() {
                let row = client.list.rows.iter().find(|row| row.id.as_str() == id);
                if row.and_then(|row| of(row)) != wanted.as_u64() {
                    return fail(format!("{field} of {id}"));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn every_shared_vector_is_folded_as_it_says() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/protocol/vectors");
    let mut vectors = 0;
    let mut wrong = vec![];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let file: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for vector in file["vectors"].as_array().unwrap() {
            vectors += 1;
            wrong.extend(run(vector).err());
        }
    }
    assert!(wrong.is_empty() && vectors >= 50, "{vectors} vectors; {wrong:#?}");
}
