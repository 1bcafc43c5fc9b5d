//! What is played: each scenario is about one thing of docs/PROTOCOL.md.

use serde_json::{Value, json};

/// A list of acts; its name is the feed's, too.
pub struct Scenario {
    pub name: &'static str,
    /// What the client must do.
    pub about: &'static str,
    pub needs: Needs,
    pub acts: Vec<Act>,
}

/// What a client must have for a scenario to make sense.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// It learns with which status a handshake was refused.
    Answers,
    /// It asks for tokens: each one that it is given differs from those before.
    Tokens,
    /// It can leave totals out, and is asked to.
    Without,
}

/// The position that the client must offer.
#[derive(Clone, Copy)]
pub enum Since {
    Nothing,
    At(&'static str),
}

/// What happens next. Times are in milliseconds and begin when the last connection ended.
#[derive(Clone)]
pub enum Act {
    /// The client connects and is let in.
    Connects { since: Since, least_ms: u64, most_ms: u64 },
    /// It does so with another token than the last time.
    ConnectsWithNewToken { most_ms: u64 },
    /// It connects and is refused.
    IsRefused { status: u16, retry_after: Option<u64>, least_ms: u64, most_ms: u64 },
    /// It connects and its handshake is not answered: it must give up.
    IsKeptWaiting { most_ms: u64 },
    /// The gateway sends a frame.
    Sends(String),
    /// It comes in small pieces.
    SendsInPieces(String),
    /// It comes as a message of several frames.
    SendsFragments(String),
    /// Half of it comes, and then the connection is gone.
    SendsHalfAndCuts(String),
    /// A WebSocket ping, which the client answers.
    Pings,
    /// The client's list is this.
    Shows { position: Option<&'static str>, rows: Vec<&'static str> },
    /// The client ends the connection.
    Leaves { most_ms: u64 },
    /// It does not, and opens no other.
    Stays { ms: u64 },
    /// It sends another token.
    RenewsToken { most_ms: u64 },
    /// The gateway closes with a code.
    Closes(u16),
    /// The connection is gone without a word.
    Cuts,
    /// The client does not connect.
    StaysAway { ms: u64 },
    /// So long at least after its first connection.
    TookAtLeast { ms: u64 },
}

impl Act {
    /// For messages.
    pub fn about(&self) -> &'static str {
        match self {
            Act::Connects { .. } => "the client connects",
            Act::ConnectsWithNewToken { .. } => "the client connects with a new token",
            Act::IsRefused { .. } => "the client connects and is refused",
            Act::IsKeptWaiting { .. } => "the client gives up a handshake that is not answered",
            Act::Sends(_) | Act::SendsInPieces(_) | Act::SendsFragments(_) => "a frame comes",
            Act::SendsHalfAndCuts(_) => "half a frame comes",
            Act::Pings => "a ping comes",
            Act::Shows { .. } => "the client shows its list",
            Act::Leaves { .. } => "the client ends the connection",
            Act::Stays { .. } => "the client stays",
            Act::RenewsToken { .. } => "the client sends a new token",
            Act::Closes(_) | Act::Cuts => "the connection ends",
            Act::StaysAway { .. } => "the client stays away",
            Act::TookAtLeast { .. } => "the client takes its time",
        }
    }
}

/// The ceiling of the first pause after a lost line.
const FIRST: u64 = 500;
/// The ceiling of the longest.
const LONGEST: u64 = 20_000;

fn row(n: u64) -> Value {
    json!({
        "row": format!("e1-{n}"), "rev": 1, "seq": n, "user": {"id": "u1", "name": "Ada"},
        "gift": {"id": "rose", "name": "Rose"}, "count": 1,
        "at": "2026-01-31T20:00:00.000Z", "updated_at": "2026-01-31T20:00:00.000Z",
    })
}

fn said(feed: &str, mut frame: Value) -> String {
    frame["feed"] = feed.into();
    frame.to_string()
}

/// A list with the two rows before `seq` and that one.
fn snapshot(feed: &str, epoch: &str, seq: u64, keepalive_ms: u64) -> String {
    let rows: Vec<Value> = (seq.saturating_sub(1).max(1)..=seq).rev().map(row).collect();
    said(
        feed,
        json!({
            "type": "snapshot", "epoch": epoch, "seq": seq, "capacity": 3, "rows": rows,
            "keepalive_ms": keepalive_ms, "skipped": 0,
        }),
    )
}

fn resumed(feed: &str, epoch: &str, seq: u64) -> String {
    said(feed, json!({"type": "resumed", "epoch": epoch, "seq": seq, "keepalive_ms": 25_000}))
}

fn delta(feed: &str, seq: u64) -> String {
    said(feed, json!({"type": "delta", "seq": seq, "ops": [{"op": "add", "seq": seq, "row": row(seq)}]}))
}

fn first() -> Act {
    Act::Connects { since: Since::Nothing, least_ms: 0, most_ms: 0 }
}

fn again(since: &'static str, most_ms: u64) -> Act {
    Act::Connects { since: Since::At(since), least_ms: 0, most_ms }
}

fn shows(position: &'static str, rows: &[&'static str]) -> Act {
    Act::Shows { position: Some(position), rows: rows.to_vec() }
}

/// Connected, with a list at seq 2.
fn begun(feed: &str) -> Vec<Act> {
    vec![first(), Act::Sends(snapshot(feed, "e1", 2, 25_000)), shows("e1:2", &["e1-2", "e1-1"])]
}

/// After [`begun`]: back where it was, and going on.
fn goes_on(feed: &str, most_ms: u64) -> Vec<Act> {
    vec![
        again("e1:2", most_ms),
        Act::Sends(resumed(feed, "e1", 2)),
        Act::Sends(delta(feed, 3)),
        shows("e1:3", &["e1-3", "e1-2", "e1-1"]),
    ]
}

/// All of them, in the order in which they are played.
pub fn all() -> Vec<Scenario> {
    let scenario = |name, about, acts| Scenario { name, about, needs: Needs::Nothing, acts };
    let mut all = vec![
        scenario("plain", "takes a snapshot and deltas, and passes over what it does not know", {
            let feed = "plain";
            let odd = json!({"type": "delta", "seq": 4, "later": 1, "ops": [{"op": "sparkle", "seq": 4}]});
            [
                begun(feed),
                vec![
                    Act::Sends(delta(feed, 3)),
                    Act::Sends(said(feed, json!({"type": "fireworks", "seq": 99}))),
                    Act::Sends(said(feed, odd)),
                    Act::Sends(said(feed, json!({"type": "keepalive", "seq": 4}))),
                    Act::Sends(delta(feed, 5)),
                    shows("e1:5", &["e1-5", "e1-3", "e1-2"]),
                    Act::Stays { ms: 500 },
                ],
            ]
            .concat()
        }),
        scenario("gap", "notices that a change is missing, and connects again from where it stands", {
            let feed = "gap";
            let gap = vec![Act::Sends(delta(feed, 4)), Act::Leaves { most_ms: 3_000 }];
            [begun(feed), gap, goes_on(feed, FIRST)].concat()
        }),
        scenario("repeat", "takes no change twice", {
            let feed = "repeat";
            let repeat = vec![Act::Sends(delta(feed, 2)), Act::Leaves { most_ms: 3_000 }];
            [begun(feed), repeat, goes_on(feed, FIRST)].concat()
        }),
        scenario("ahead", "asks again when a keepalive is ahead of it", {
            let feed = "ahead";
            let keepalive = said(feed, json!({"type": "keepalive", "seq": 7}));
            [begun(feed), vec![Act::Sends(keepalive), Act::Leaves { most_ms: 3_000 }], goes_on(feed, FIRST)]
                .concat()
        }),
        scenario("epoch", "replaces its list when the numbering begins anew", {
            let feed = "epoch";
            let news = Act::Sends(snapshot(feed, "e2", 1, 25_000));
            [begun(feed), vec![Act::Cuts, again("e1:2", FIRST), news, shows("e2:1", &["e1-1"])]].concat()
        }),
        scenario("not-mine", "forgets its position when it is resumed from one that it does not have", {
            let feed = "not-mine";
            [
                begun(feed),
                vec![
                    Act::Cuts,
                    again("e1:2", FIRST),
                    Act::Sends(resumed(feed, "e1", 1)),
                    Act::Leaves { most_ms: 3_000 },
                    Act::Connects { since: Since::Nothing, least_ms: 0, most_ms: 2 * FIRST },
                    Act::Sends(snapshot(feed, "e1", 3, 25_000)),
                    shows("e1:3", &["e1-3", "e1-2"]),
                ],
            ]
            .concat()
        }),
        scenario("half", "takes nothing of half a frame", {
            let feed = "half";
            [begun(feed), vec![Act::SendsHalfAndCuts(delta(feed, 3))], goes_on(feed, FIRST)].concat()
        }),
        scenario("pieces", "takes a large snapshot that comes in small pieces", {
            let feed = "pieces";
            let rows: Vec<Value> = (1..=100)
                .rev()
                .map(|n| {
                    let mut row = row(n);
                    row["message"] = "🎁 שלום ".repeat(200).into();
                    row
                })
                .collect();
            let large = json!({
                "type": "snapshot", "epoch": "e1", "seq": 100, "capacity": 100, "rows": rows,
                "keepalive_ms": 25_000, "skipped": 0,
            });
            let capacity = json!({
                "type": "snapshot", "epoch": "e1", "seq": 101, "capacity": 1, "rows": [row(101)],
                "keepalive_ms": 25_000, "skipped": 1,
            });
            vec![
                first(),
                Act::SendsInPieces(said(feed, large)),
                Act::SendsFragments(said(feed, capacity)),
                shows("e1:101", &["e1-101"]),
                Act::SendsFragments(delta(feed, 102)),
                shows("e1:102", &["e1-102"]),
            ]
        }),
        scenario("pings", "answers pings, and stays while they come with frames", {
            let feed = "pings";
            let keepalive = || Act::Sends(said(feed, json!({"type": "keepalive", "seq": 2})));
            [begun(feed), vec![Act::Pings, keepalive(), Act::Pings, Act::Stays { ms: 1_000 }]].concat()
        }),
        scenario("silence", "leaves a line on which nothing comes any more", {
            let feed = "silence";
            [
                vec![first(), Act::Sends(snapshot(feed, "e1", 2, 1_000)), shows("e1:2", &["e1-2", "e1-1"])],
                // Not at once: the time that was promised is 1 s, and some more.
                vec![Act::Stays { ms: 1_000 }, Act::Leaves { most_ms: 9_000 }],
                goes_on(feed, FIRST),
            ]
            .concat()
        }),
        scenario("mute", "gives up a handshake that is not answered", {
            let feed = "mute";
            vec![
                Act::IsKeptWaiting { most_ms: 20_000 },
                Act::Connects { since: Since::Nothing, least_ms: 0, most_ms: 1_000 },
                Act::Sends(snapshot(feed, "e1", 2, 25_000)),
                shows("e1:2", &["e1-2", "e1-1"]),
            ]
        }),
        scenario("goodbye", "stays away for the time it was given, and then comes back", {
            let feed = "goodbye";
            let goodbye = json!({"type": "goodbye", "reason": "shutdown", "reconnect_in_ms": 3_000});
            let mut back = goes_on(feed, 0);
            back[0] = Act::Connects { since: Since::At("e1:2"), least_ms: 2_800, most_ms: 3_500 };
            [begun(feed), vec![Act::Sends(said(feed, goodbye)), Act::Closes(4200)], back].concat()
        }),
        scenario("refused", "stops when the gateway says that it did something wrong", {
            let feed = "refused";
            let error = json!({"type": "error", "code": "bad_request", "message": "no"});
            [
                begun(feed),
                vec![Act::Sends(said(feed, error)), Act::Closes(4000), Act::StaysAway { ms: 4_000 }],
            ]
            .concat()
        }),
        scenario("back-off", "waits longer and longer while lines break, and does not hammer", {
            let feed = "back-off";
            let broken = |most_ms| {
                vec![
                    Act::Connects { since: Since::At("e1:2"), least_ms: 0, most_ms },
                    Act::Sends(resumed(feed, "e1", 2)),
                    Act::Cuts,
                ]
            };
            [
                begun(feed),
                vec![Act::Cuts],
                broken(FIRST),
                broken(2 * FIRST),
                broken(4 * FIRST),
                broken(8 * FIRST),
                broken(16 * FIRST),
                // Five pauses whose ceilings double: all five together this short is one time in ten thousand.
                vec![Act::TookAtLeast { ms: 700 }],
                goes_on(feed, 32 * FIRST),
            ]
            .concat()
        }),
        scenario("proxy", "comes back through a proxy that has no gateway behind it for a while", {
            let feed = "proxy";
            let refused = |most_ms| Act::IsRefused { status: 502, retry_after: None, least_ms: 0, most_ms };
            [
                begun(feed),
                vec![Act::Cuts, refused(FIRST), refused(2 * FIRST), refused(4 * FIRST)],
                goes_on(feed, 8 * FIRST),
            ]
            .concat()
        }),
    ];
    all.push(Scenario {
        name: "busy",
        about: "comes back when the seconds of Retry-After are over",
        needs: Needs::Answers,
        acts: {
            let feed = "busy";
            let refused = Act::IsRefused { status: 429, retry_after: Some(3), least_ms: 0, most_ms: FIRST };
            let mut back = goes_on(feed, 0);
            back[0] = Act::Connects { since: Since::At("e1:2"), least_ms: 2_900, most_ms: 6_000 };
            [begun(feed), vec![Act::Cuts, refused], back].concat()
        },
    });
    all.push(Scenario {
        name: "gone",
        about: "stops when the gateway says that what it asks for is not there",
        needs: Needs::Answers,
        acts: vec![
            Act::IsRefused { status: 404, retry_after: None, least_ms: 0, most_ms: 0 },
            Act::StaysAway { ms: 4_000 },
        ],
    });
    all.push(Scenario {
        name: "token-ends",
        about: "sends a new token before the old one ends, on the line that it has",
        needs: Needs::Tokens,
        acts: {
            let feed = "token-ends";
            let ending = json!({"type": "token", "expires_in_ms": 5_000});
            let renewed = json!({"type": "auth", "expires_in_ms": 900_000});
            let then = vec![
                Act::Sends(said(feed, ending)),
                Act::RenewsToken { most_ms: 5_000 },
                Act::Sends(said(feed, renewed)),
                Act::Sends(delta(feed, 3)),
                shows("e1:3", &["e1-3", "e1-2", "e1-1"]),
                Act::Stays { ms: 500 },
            ];
            [begun(feed), then].concat()
        },
    });
    all.push(Scenario {
        name: "token-over",
        about: "asks for a new token when its own has ended, and keeps its list",
        needs: Needs::Tokens,
        acts: {
            let feed = "token-over";
            let over = json!({"type": "error", "code": "token_expired", "message": "no"});
            let then = vec![
                Act::Sends(said(feed, over)),
                Act::Closes(4101),
                Act::ConnectsWithNewToken { most_ms: LONGEST },
                Act::Sends(resumed(feed, "e1", 2)),
                Act::Sends(delta(feed, 3)),
                shows("e1:3", &["e1-3", "e1-2", "e1-1"]),
            ];
            [begun(feed), then].concat()
        },
    });
    all.push(Scenario {
        name: "without",
        about: "asks each time to leave totals out, and counts what only counts",
        needs: Needs::Without,
        acts: {
            let feed = "without";
            let counted = json!({"type": "delta", "seq": 4, "ops": [
                {"op": "none", "seq": 3}, {"op": "none", "seq": 4},
            ]});
            let then = vec![
                Act::Sends(said(feed, counted)),
                Act::Sends(delta(feed, 5)),
                shows("e1:5", &["e1-5", "e1-2", "e1-1"]),
                Act::Cuts,
                again("e1:5", FIRST),
                Act::Sends(resumed(feed, "e1", 5)),
                Act::Sends(delta(feed, 6)),
                shows("e1:6", &["e1-6", "e1-5", "e1-2"]),
            ];
            [begun(feed), then].concat()
        },
    });
    all
}
