//! The Lua scripts and what each is called with. `lua/*.lua` are the texts; a test compares their
//! headers with [`ALL`].

use std::sync::{Arc, LazyLock};

mod call;
mod header;
mod rights;

pub(in crate::engine) use call::Call;
pub use header::{Header, Use};
use rights::Asked;
pub use rights::COMMANDS;

/// One script: its text, and what it is called with.
pub struct Script {
    /// What it is called in logs and by `tipcast script`.
    pub name: &'static str,
    /// Its file in `lua/`, without `.lua`.
    pub file: &'static str,
    /// What stands in front of its own text; some of [`PARTS`], in their order.
    pub parts: &'static [Part],
    /// Its own file.
    pub text: &'static str,
    /// What stands behind its own text; some of [`PARTS`].
    pub ends: &'static [Part],
    /// Whether its answer promises something: then replicas must have what it wrote, where the operator wants that.
    pub promises: bool,
    header: LazyLock<Header>,
    whole: LazyLock<Arc<str>>,
    code: LazyLock<redis::Script>,
}

/// A text that stands in front of several scripts.
pub struct Part {
    /// The name of its file without `.lua`.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
    /// The name of the table that it returns, where it is a module: it has a scope of its own. Else its locals are those of what
    /// stands behind it.
    pub module: Option<&'static str>,
}

macro_rules! part {
    ($file:literal) => {
        Part { name: $file, text: include_str!(concat!("../../../../lua/", $file, ".lua")), module: None }
    };
    ($file:literal, $module:literal) => {
        Part { module: Some($module), ..part!($file) }
    };
}

/// The time by which a call goes.
pub const CLOCK: Part = part!("clock", "clock");

/// A feed's policy.
pub const POLICIES: Part = part!("feed/policies", "policies");

/// What stands in front of every feed script.
pub const COMMON: Part = part!("feed/common");

/// How ledgers are stored: for scripts that append to them, and for those of their readers.
pub const LEDGER: Part = part!("ledger/ledger");

/// What stands in front of scripts of ledgers' readers, behind [`LEDGER`].
pub const REPORT: Part = part!("ledger/reader");

/// What stands in front of scripts that append to the feed's ledger.
pub const APPEND: Part = part!("ledger/append");

/// The dedup lock.
pub const LOCK: Part = part!("feed/lock", "lock");

/// How far a combo has grown.
pub const COMBO: Part = part!("feed/combo", "combo");

/// What became of a gift, by its id.
pub const RECEIPT: Part = part!("feed/receipt", "receipt");

/// What stands in front of scripts that take gifts.
pub const GIFTS: Part = part!("feed/gifts");

/// What stands in front of scripts that change the feed's due queue.
pub const DUE: Part = part!("due/queue");

/// How scripts end that take gifts and whose due queue may change: behind [`DUE`].
pub const FINISH: Part = part!("feed/finish");

/// The part of publishing that is all of it most of the time.
pub const NOW: Part = part!("feed/publish_now");

/// Sums that count beyond what a float can tell apart: for scripts that count.
pub const SUMS: Part = part!("totals/sums");

/// How what is counted is stored, in front of the script that adds it up.
pub const TALLY_STATE: Part = part!("totals/state");

/// Who gave how much, behind [`TALLY_STATE`].
pub const TALLY_GIFTERS: Part = part!("totals/gifters");

/// Who leads, behind [`TALLY_GIFTERS`].
pub const TALLY_RANKS: Part = part!("totals/ranks");

/// How what came is added up, behind [`TALLY_RANKS`].
pub const TALLY_FOLD: Part = part!("totals/fold");

/// How gifts count, behind [`SUMS`] in front of scripts that take them, sell or take back, in feeds that count something.
pub const COUNT: Part = part!("totals/count");

/// Review and blocks: what stands behind [`DUE`] in front of scripts that judge gifts.
pub const GUARD: Part = part!("feed/guard");

/// How publishing ends when not all gifts are simply for now.
pub const LATER: Part = part!("feed/publish_later");

/// What rows were made of: behind [`COUNT`] in front of scripts that take back.
pub const RETRACTED: Part = part!("feed/retracted");

/// Every part there is.
pub const PARTS: [Part; 23] = [
    CLOCK,
    POLICIES,
    COMMON,
    LOCK,
    COMBO,
    RECEIPT,
    LEDGER,
    REPORT,
    APPEND,
    SUMS,
    COUNT,
    RETRACTED,
    TALLY_STATE,
    TALLY_GIFTERS,
    TALLY_RANKS,
    TALLY_FOLD,
    GIFTS,
    NOW,
    DUE,
    FINISH,
    GUARD,
    LATER,
    DROPS,
];

/// Runs what stands behind it, up to [`END`], only in feeds that count something: nobody else pays for it.
const IF_COUNTED: Part =
    Part { name: "", text: "if strings[9] or #policies.defaults.totals > 0 then", module: None };

/// Where [`IF_COUNTED`] ends.
const END: Part = Part { name: "", text: "end", module: None };

/// Runs what stands behind it, up to [`END_GUARDED`], only where gifts are looked at (`guards` of `lua/feed/publish_now.lua`).
const IF_GUARDED: Part =
    Part { name: "", text: "local judge_gift, commit_reviews\nif guards then", module: None };

/// Where [`IF_GUARDED`] ends: what is needed of it behind.
const END_GUARDED: Part =
    Part { name: "", text: "judge_gift, commit_reviews = judge, guard_commit\nend", module: None };

/// What stands in front of the scripts of drops.
pub const DROPS: Part = part!("drops/stock");

impl Part {
    /// As it stands in front of a script: a module in a function of its own.
    pub fn glued(&self) -> String {
        match self.module {
            Some(name) => format!("local {name} = (function()\n{}\nend)()\n", self.text),
            None => format!("{}\n", self.text),
        }
    }
}

impl Script {
    /// What Redis runs; of a script that names what its header does not have, one that says so.
    pub fn source(&self) -> String {
        let glued = |parts: &[Part]| parts.iter().map(Part::glued).collect::<String>();
        // What comes behind its own text runs only where that has written nothing, and has a check of its own.
        let (body, ends) = (glued(self.parts) + self.text, glued(self.ends));
        let check = |body: &str, asked| rights::check(self.name, self.header(), body, asked);
        let numbered =
            |text: &str| self.header().numbered(text).unwrap_or_else(|why| format!("error({why:?})\n"));
        let (body, ends) = (numbered(&body), numbered(&ends));
        match ends.is_empty() {
            true => check(&body, Asked::All) + &body,
            false => [check(&body, Asked::Writes), body, check(&ends, Asked::All), ends].concat(),
        }
    }

    /// [`Script::source`], made once.
    pub fn whole(&self) -> Arc<str> {
        self.whole.clone()
    }

    /// The SHA-1 by which Redis knows it, in hex.
    pub(super) fn sha(&self) -> &str {
        self.code.get_hash()
    }

    /// What it is called with. A header that cannot be read is one that no test has passed.
    pub fn header(&self) -> &Header {
        &self.header
    }
}

macro_rules! script {
    ($name:ident, $called:literal, $file:literal, [$($part:ident),*], $promises:literal) => {
        script!($name, $called, $file, [$($part),*], $promises, []);
    };
    ($name:ident, $called:literal, $file:literal, [$($part:ident),*], $promises:literal, [$($end:ident),*]) => {
        /// The script of this name in `lua/`.
        pub static $name: Script = Script {
            name: $called,
            file: $file,
            parts: &[$($part),*],
            text: include_str!(concat!("../../../../lua/", $file, ".lua")),
            ends: &[$($end),*],
            promises: $promises,
            header: LazyLock::new(|| Header::read($name.text).unwrap_or_default()),
            whole: LazyLock::new(|| $name.source().into()),
            code: LazyLock::new(|| redis::Script::new(&$name.whole)),
        };
    };
}

script!(
    PUBLISH,
    "feed_publish",
    "feed/publish",
    [POLICIES, LOCK],
    true,
    [
        COMMON,
        LEDGER,
        APPEND,
        IF_COUNTED,
        SUMS,
        COUNT,
        END,
        COMBO,
        RECEIPT,
        GIFTS,
        NOW,
        DUE,
        FINISH,
        IF_GUARDED,
        GUARD,
        END_GUARDED,
        LATER
    ]
);
script!(
    SHOW,
    "feed_show",
    "feed/show",
    [
        POLICIES, COMMON, LEDGER, APPEND, IF_COUNTED, SUMS, COUNT, END, LOCK, COMBO, RECEIPT, GIFTS, DUE,
        FINISH, GUARD
    ],
    false
);
script!(
    REVIEW,
    "feed_review",
    "feed/review",
    [
        POLICIES, COMMON, LEDGER, APPEND, IF_COUNTED, SUMS, COUNT, END, LOCK, COMBO, RECEIPT, GIFTS, DUE,
        FINISH, GUARD
    ],
    true
);
script!(BLOCK_CHANGE, "block_change", "feed/block_change", [CLOCK], true);
script!(WALK_TURN, "walk_turn", "feed/walk_turn", [CLOCK], true);
script!(
    TALLY,
    "feed_tally",
    "totals/tally",
    [POLICIES, COMMON, LEDGER, APPEND, SUMS, TALLY_STATE, TALLY_GIFTERS, TALLY_RANKS, TALLY_FOLD],
    true
);
script!(UNSCHEDULE, "feed_unschedule", "feed/unschedule", [POLICIES, COMMON, RECEIPT, DUE], true);
script!(
    RETRACT,
    "feed_retract",
    "feed/retract",
    [POLICIES, COMMON, LEDGER, APPEND, SUMS, COUNT, RETRACTED],
    true
);
script!(
    RETRACT_USER,
    "feed_retract_user",
    "feed/retract_user",
    [POLICIES, COMMON, LEDGER, APPEND, SUMS, COUNT, RETRACTED],
    true
);
script!(
    RETRACT_GIFT,
    "feed_retract_gift",
    "feed/retract_gift",
    [POLICIES, COMMON, RECEIPT, LEDGER, APPEND, SUMS, COUNT, RETRACTED, DUE],
    true
);
script!(CONTROL, "feed_control", "feed/control", [POLICIES, COMMON], true);
script!(POLICY, "feed_policy", "feed/policy", [POLICIES, COMMON], true);
script!(SNAPSHOT, "feed_snapshot", "feed/snapshot", [POLICIES, COMMON], false);
script!(CHANGES, "feed_changes", "feed/changes", [POLICIES, COMMON], false);
script!(DROP_DEFINE, "feed_drop_define", "drops/define", [POLICIES, COMMON, LEDGER, APPEND, DROPS], true);
script!(DROP_TICK, "feed_drop_tick", "drops/tick", [POLICIES, COMMON, LEDGER, APPEND, DROPS], false);
script!(
    DROP_CLAIM,
    "feed_drop_claim",
    "drops/claim",
    [POLICIES, COMMON, LEDGER, APPEND, IF_COUNTED, SUMS, COUNT, END, DROPS],
    true
);
script!(
    DROP_END,
    "feed_drop_end",
    "drops/end",
    [POLICIES, COMMON, LEDGER, APPEND, IF_COUNTED, SUMS, COUNT, END, DROPS],
    true
);
script!(HOLDS, "feed_holds", "drops/holds", [POLICIES, COMMON], false);
script!(DUE_ENTRIES, "due_entries", "due/entries", [CLOCK], false);
script!(DUE_ASIDE, "due_aside", "due/aside", [CLOCK], false);
script!(DUE_REGISTER, "due_register", "due/register", [CLOCK], true);
script!(DUE_TURNS, "due_turns", "due/turns", [CLOCK], false);
script!(DUE_REWIND, "due_rewind", "due/rewind", [CLOCK], false);
script!(REPORT_TAKE, "report_take", "ledger/take", [CLOCK, LEDGER, REPORT], false);
script!(REPORT_SETTLE, "report_settle", "ledger/settle", [CLOCK, LEDGER, REPORT], true);
script!(REPORT_VIEW, "report_view", "ledger/view", [CLOCK, LEDGER, REPORT], false);
script!(REPORT_ENTRY, "report_entry", "ledger/entry", [CLOCK, LEDGER, REPORT], false);
script!(REPORT_SEEK, "report_seek", "ledger/seek", [CLOCK, LEDGER, REPORT], true);
script!(REPORT_READ, "report_read", "ledger/read", [CLOCK, LEDGER, REPORT], false);
script!(REPORT_FORGET, "report_forget", "ledger/forget", [CLOCK, LEDGER, REPORT], true);
script!(REPORT_REPLAY, "report_replay", "ledger/replay", [CLOCK, LEDGER, REPORT], true);
script!(REPORT_HOOK, "report_hook", "ledger/hook", [CLOCK, LEDGER, REPORT], true);
script!(REPORT_ATTACH, "report_attach", "ledger/attach", [CLOCK, LEDGER, REPORT], false);
script!(REPORT_JOB, "report_job", "ledger/job", [CLOCK, LEDGER, REPORT], false);
script!(HOOKS_SWAP, "hooks_swap", "ledger/hooks_swap", [CLOCK], true);
script!(HOOKS_COPY, "hooks_copy", "ledger/hooks_copy", [], false);

script!(SOURCE_SWAP, "source_swap", "sources/swap", [], true);
script!(SOURCE_NOTE, "source_note", "sources/note", [], false);
script!(SOURCE_REFUND, "source_refund", "sources/refund", [], true);

script!(VIEWERS_REVOKE, "viewers_revoke", "viewers/revoke", [CLOCK], true);
script!(VIEWERS_REVOKED, "viewers_revoked", "viewers/revoked", [], false);

script!(REQUEST_CLAIM, "request_claim", "sources/request_claim", [CLOCK], true);

script!(PROBE, "probe", "probe", [], false);

/// The text of the script of this name as it is run; without a name, the names of all of them, a line each.
///
/// # Errors
/// When there is no such script; what to do.
pub fn named(name: Option<&str>) -> Result<String, String> {
    let Some(name) = name else {
        return Ok(ALL.iter().flat_map(|script| [script.name, "\n"]).collect());
    };
    let is_it = |script: &&&Script| script.name == name || script.name.strip_prefix("feed_") == Some(name);
    let found = ALL.iter().find(is_it);
    found
        .map(|script| script.whole.to_string())
        .ok_or_else(|| format!("there is no script {name:?}; `tipcast script` lists them"))
}

/// Every script there is.
pub static ALL: [&Script; 44] = [
    &TALLY,
    &PUBLISH,
    &SHOW,
    &REVIEW,
    &BLOCK_CHANGE,
    &WALK_TURN,
    &UNSCHEDULE,
    &RETRACT,
    &RETRACT_USER,
    &RETRACT_GIFT,
    &CONTROL,
    &POLICY,
    &SNAPSHOT,
    &CHANGES,
    &DROP_DEFINE,
    &DROP_TICK,
    &DROP_CLAIM,
    &DROP_END,
    &HOLDS,
    &DUE_ENTRIES,
    &DUE_ASIDE,
    &DUE_REGISTER,
    &DUE_REWIND,
    &DUE_TURNS,
    &REPORT_TAKE,
    &REPORT_SETTLE,
    &REPORT_VIEW,
    &REPORT_ENTRY,
    &REPORT_READ,
    &REPORT_SEEK,
    &REPORT_FORGET,
    &REPORT_REPLAY,
    &REPORT_HOOK,
    &REPORT_ATTACH,
    &REPORT_JOB,
    &HOOKS_SWAP,
    &HOOKS_COPY,
    &SOURCE_SWAP,
    &SOURCE_NOTE,
    &SOURCE_REFUND,
    &VIEWERS_REVOKE,
    &VIEWERS_REVOKED,
    &REQUEST_CLAIM,
    &PROBE,
];
