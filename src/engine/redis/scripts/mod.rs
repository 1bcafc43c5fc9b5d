//! The Lua scripts and what each is called with. `lua/*.lua` are the texts; a test compares their
//! headers with [`ALL`].

use std::sync::LazyLock;

mod call;
mod header;

pub(super) use call::Call;
pub use header::Header;

/// One script: its text, and what it is called with.
pub struct Script {
    /// The name of its file without `.lua`.
    pub name: &'static str,
    /// What stands in front of its own text; some of [`PARTS`], in their order.
    pub parts: &'static [Part],
    /// Its own file.
    pub text: &'static str,
    /// What stands behind its own text; some of [`PARTS`].
    pub ends: &'static [Part],
    /// Whether its answer promises something: then replicas must have what it wrote, where the operator wants that.
    pub promises: bool,
    header: LazyLock<Header>,
    code: LazyLock<redis::Script>,
}

/// A text that stands in front of several scripts.
pub struct Part {
    /// The name of its file without `.lua`.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

/// What stands in front of every feed script.
pub const COMMON: Part = Part { name: "feed_common", text: include_str!("../../../../lua/feed_common.lua") };

/// How ledgers are stored: for scripts that append to them, and for those of their readers.
pub const LEDGER: Part = Part { name: "ledger", text: include_str!("../../../../lua/ledger.lua") };

/// What stands in front of scripts of ledgers' readers, behind [`LEDGER`].
pub const REPORT: Part =
    Part { name: "report_common", text: include_str!("../../../../lua/report_common.lua") };

/// What stands in front of scripts that append to the feed's ledger: KEYS 8 to 10, ARGV 10 to 12.
pub const APPEND: Part = Part { name: "feed_ledger", text: include_str!("../../../../lua/feed_ledger.lua") };

/// What stands in front of scripts that take gifts.
pub const GIFTS: Part = Part { name: "feed_gifts", text: include_str!("../../../../lua/feed_gifts.lua") };

/// What stands in front of scripts whose KEYS 6 and 7 are the feed's due queue.
pub const DUE: Part = Part { name: "feed_due", text: include_str!("../../../../lua/feed_due.lua") };

/// How scripts end that take gifts and whose due queue may change: behind [`DUE`].
pub const FINISH: Part = Part { name: "feed_finish", text: include_str!("../../../../lua/feed_finish.lua") };

/// The part of publishing that is all of it most of the time.
pub const NOW: Part =
    Part { name: "feed_publish_now", text: include_str!("../../../../lua/feed_publish_now.lua") };

/// Whether a feed is what the caller has seen of it: in front of [`PLAIN`].
pub const PLAIN_KNOWN: Part =
    Part { name: "plain_known", text: include_str!("../../../../lua/plain_known.lua") };

/// How gifts are taken that are what most are: in front of scripts that take such.
pub const PLAIN: Part = Part { name: "plain", text: include_str!("../../../../lua/plain.lua") };

/// How such gifts are written: behind the same scripts.
pub const PLAIN_WRITE: Part =
    Part { name: "plain_write", text: include_str!("../../../../lua/plain_write.lua") };

/// How such gifts count: behind the scripts that do.
pub const PLAIN_COUNT: Part =
    Part { name: "plain_count", text: include_str!("../../../../lua/plain_count.lua") };

/// Whether a host has approved the names of such gifts' givers: behind the scripts that ask.
pub const PLAIN_APPROVED: Part =
    Part { name: "plain_approved", text: include_str!("../../../../lua/plain_approved.lua") };

/// Sums that count beyond what a float can tell apart: for scripts that count.
pub const SUMS: Part = Part { name: "feed_sums", text: include_str!("../../../../lua/feed_sums.lua") };

/// How what is counted is stored, in front of the script that adds it up.
pub const TALLY_STATE: Part =
    Part { name: "feed_tally_state", text: include_str!("../../../../lua/feed_tally_state.lua") };

/// Who gave how much, behind [`TALLY_STATE`].
pub const TALLY_GIFTERS: Part =
    Part { name: "feed_tally_gifters", text: include_str!("../../../../lua/feed_tally_gifters.lua") };

/// Who leads, behind [`TALLY_GIFTERS`].
pub const TALLY_RANKS: Part =
    Part { name: "feed_tally_ranks", text: include_str!("../../../../lua/feed_tally_ranks.lua") };

/// How what came is added up, behind [`TALLY_RANKS`].
pub const TALLY_FOLD: Part =
    Part { name: "feed_tally_fold", text: include_str!("../../../../lua/feed_tally_fold.lua") };

/// How gifts count, behind [`SUMS`] in front of scripts that take them, sell or take back, in feeds that count something.
pub const COUNT: Part = Part { name: "feed_count", text: include_str!("../../../../lua/feed_count.lua") };

/// What makes [`NOW`] that of feeds whose gifts are judged.
pub const GUARDED: Part =
    Part { name: "feed_guarded", text: include_str!("../../../../lua/feed_guarded.lua") };

/// Review and blocks: what stands behind [`DUE`] in front of scripts that judge gifts.
pub const GUARD: Part = Part { name: "feed_guard", text: include_str!("../../../../lua/feed_guard.lua") };

/// How publishing ends when not all gifts are simply for now.
pub const LATER: Part =
    Part { name: "feed_publish_later", text: include_str!("../../../../lua/feed_publish_later.lua") };

/// Every part there is.
pub const PARTS: [Part; 23] = [
    PLAIN_KNOWN,
    PLAIN,
    PLAIN_COUNT,
    PLAIN_APPROVED,
    PLAIN_WRITE,
    COMMON,
    LEDGER,
    REPORT,
    APPEND,
    SUMS,
    COUNT,
    TALLY_STATE,
    TALLY_GIFTERS,
    TALLY_RANKS,
    TALLY_FOLD,
    GIFTS,
    GUARDED,
    NOW,
    DUE,
    FINISH,
    GUARD,
    LATER,
    DROPS,
];

/// What stands in front of the scripts of drops.
pub const DROPS: Part = Part { name: "feed_drops", text: include_str!("../../../../lua/feed_drops.lua") };

impl Script {
    /// What Redis runs.
    pub fn source(&self) -> String {
        let mut source = String::new();
        for part in self.parts {
            source.push_str(part.text);
            source.push('\n');
        }
        source.push_str(self.text);
        for part in self.ends {
            source.push('\n');
            source.push_str(part.text);
        }
        source
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
    ($name:ident, $file:literal, [$($part:ident),*], $promises:literal) => {
        script!($name, $file, [$($part),*], $promises, []);
    };
    ($name:ident, $file:literal, [$($part:ident),*], $promises:literal, [$($end:ident),*]) => {
        /// The script of this name in `lua/`.
        pub static $name: Script = Script {
            name: $file,
            parts: &[$($part),*],
            text: include_str!(concat!("../../../../lua/", $file, ".lua")),
            ends: &[$($end),*],
            promises: $promises,
            header: LazyLock::new(|| Header::read($name.text).unwrap_or_default()),
            code: LazyLock::new(|| redis::Script::new(&$name.source())),
        };
    };
}

script!(PUBLISH, "feed_publish", [COMMON, LEDGER, APPEND, GIFTS, NOW, DUE, FINISH, LATER], true);
script!(READY_LOOK, "ready_look", [PLAIN_KNOWN], false);
script!(READY_PUBLISH, "ready_publish", [], true);
script!(PUBLISH_PLAIN, "publish_plain", [PLAIN_KNOWN, PLAIN], true, [PLAIN_WRITE]);
script!(
    PUBLISH_PLAIN_COUNTED,
    "publish_plain_counted",
    [PLAIN_KNOWN, PLAIN],
    true,
    [PLAIN_COUNT, PLAIN_WRITE]
);
script!(
    PUBLISH_PLAIN_REVIEWED,
    "publish_plain_reviewed",
    [PLAIN_KNOWN, PLAIN],
    true,
    [PLAIN_APPROVED, PLAIN_WRITE]
);
script!(
    PUBLISH_PLAIN_COUNTED_REVIEWED,
    "publish_plain_counted_reviewed",
    [PLAIN_KNOWN, PLAIN],
    true,
    [PLAIN_COUNT, PLAIN_APPROVED, PLAIN_WRITE]
);
script!(
    PUBLISH_GUARDED,
    "feed_publish_guarded",
    [COMMON, LEDGER, APPEND, GIFTS, GUARDED, NOW, DUE, FINISH, GUARD, LATER],
    true
);
script!(SHOW, "feed_show", [COMMON, LEDGER, APPEND, GIFTS, DUE, FINISH, GUARD], false);
script!(REVIEW, "feed_review", [COMMON, LEDGER, APPEND, GIFTS, DUE, FINISH, GUARD], true);
script!(BLOCK_CHANGE, "block_change", [], true);
script!(WALK_TURN, "walk_turn", [], true);
script!(
    PUBLISH_COUNTED,
    "feed_publish",
    [COMMON, LEDGER, APPEND, SUMS, COUNT, GIFTS, NOW, DUE, FINISH, LATER],
    true
);
script!(
    PUBLISH_GUARDED_COUNTED,
    "feed_publish_guarded",
    [COMMON, LEDGER, APPEND, SUMS, COUNT, GIFTS, GUARDED, NOW, DUE, FINISH, GUARD, LATER],
    true
);
script!(SHOW_COUNTED, "feed_show", [COMMON, LEDGER, APPEND, SUMS, COUNT, GIFTS, DUE, FINISH, GUARD], false);
script!(
    REVIEW_COUNTED,
    "feed_review",
    [COMMON, LEDGER, APPEND, SUMS, COUNT, GIFTS, DUE, FINISH, GUARD],
    true
);
script!(
    TALLY,
    "feed_tally",
    [COMMON, LEDGER, APPEND, SUMS, TALLY_STATE, TALLY_GIFTERS, TALLY_RANKS, TALLY_FOLD],
    true
);
script!(UNSCHEDULE, "feed_unschedule", [COMMON, DUE], true);
script!(RETRACT, "feed_retract", [COMMON, LEDGER, APPEND, SUMS, COUNT], true);
script!(RETRACT_USER, "feed_retract_user", [COMMON, LEDGER, APPEND, SUMS, COUNT], true);
script!(RETRACT_GIFT, "feed_retract_gift", [COMMON, LEDGER, APPEND, SUMS, COUNT, DUE], true);
script!(CONTROL, "feed_control", [COMMON], true);
script!(POLICY, "feed_policy", [COMMON], true);
script!(SNAPSHOT, "feed_snapshot", [COMMON], false);
script!(CHANGES, "feed_changes", [COMMON], false);
script!(DROP_DEFINE, "feed_drop_define", [COMMON, LEDGER, APPEND, DROPS], true);
script!(DROP_TICK, "feed_drop_tick", [COMMON, LEDGER, APPEND, DROPS], false);
script!(DROP_CLAIM, "feed_drop_claim", [COMMON, LEDGER, APPEND, DROPS], true);
script!(DROP_END, "feed_drop_end", [COMMON, LEDGER, APPEND, DROPS], true);
script!(DROP_CLAIM_COUNTED, "feed_drop_claim", [COMMON, LEDGER, APPEND, SUMS, COUNT, DROPS], true);
script!(DROP_END_COUNTED, "feed_drop_end", [COMMON, LEDGER, APPEND, SUMS, COUNT, DROPS], true);
script!(HOLDS, "feed_holds", [COMMON], false);
script!(DUE_ENTRIES, "due_entries", [], false);
script!(DUE_ASIDE, "due_aside", [], false);
script!(DUE_REGISTER, "due_register", [], true);
script!(DUE_TURNS, "due_turns", [], false);
script!(REPORT_TAKE, "report_take", [LEDGER, REPORT], false);
script!(REPORT_SETTLE, "report_settle", [LEDGER, REPORT], true);
script!(REPORT_VIEW, "report_view", [LEDGER, REPORT], false);
script!(REPORT_FORGET, "report_forget", [LEDGER, REPORT], true);
script!(REPORT_REPLAY, "report_replay", [LEDGER, REPORT], true);
script!(REPORT_HOOK, "report_hook", [LEDGER, REPORT], true);
script!(REPORT_ATTACH, "report_attach", [LEDGER, REPORT], false);
script!(REPORT_JOB, "report_job", [LEDGER, REPORT], false);
script!(HOOKS_SWAP, "hooks_swap", [], true);
script!(HOOKS_COPY, "hooks_copy", [], false);

script!(SOURCE_SWAP, "source_swap", [], true);
script!(SOURCE_NOTE, "source_note", [], false);
script!(SOURCE_REFUND, "source_refund", [], true);

script!(VIEWERS_REVOKE, "viewers_revoke", [], true);
script!(VIEWERS_REVOKED, "viewers_revoked", [], false);

script!(REQUEST_CLAIM, "request_claim", [], true);

/// Every script there is.
pub static ALL: [&Script; 52] = [
    &READY_LOOK,
    &READY_PUBLISH,
    &PUBLISH_PLAIN_COUNTED,
    &PUBLISH_PLAIN_REVIEWED,
    &PUBLISH_PLAIN_COUNTED_REVIEWED,
    &PUBLISH_COUNTED,
    &PUBLISH_GUARDED_COUNTED,
    &REVIEW_COUNTED,
    &SHOW_COUNTED,
    &TALLY,
    &DROP_CLAIM_COUNTED,
    &DROP_END_COUNTED,
    &PUBLISH,
    &PUBLISH_PLAIN,
    &PUBLISH_GUARDED,
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
    &DUE_TURNS,
    &REPORT_TAKE,
    &REPORT_SETTLE,
    &REPORT_VIEW,
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
];
