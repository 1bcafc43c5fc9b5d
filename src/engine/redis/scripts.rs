//! The Lua scripts and what each is called with. `lua/*.lua` are the texts; a test compares their
//! headers with [`ALL`].

use std::sync::LazyLock;

/// One script: its text, and how many KEYS and ARGV it takes.
pub struct Script {
    /// The name of its file without `.lua`.
    pub name: &'static str,
    /// What stands in front of its own text; some of [`PARTS`], in their order.
    pub parts: &'static [Part],
    /// Its own file.
    pub text: &'static str,
    /// KEYS whatever the call, and KEYS per gift.
    pub keys: (usize, usize),
    /// ARGV whatever the call, and ARGV per gift (or per whatever the script takes many of).
    pub args: (usize, usize),
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
pub const COMMON: Part = Part { name: "feed_common", text: include_str!("../../../lua/feed_common.lua") };

/// How ledgers are stored: for scripts that append to them, and for those of their readers.
pub const LEDGER: Part = Part { name: "ledger", text: include_str!("../../../lua/ledger.lua") };

/// What stands in front of scripts of ledgers' readers, behind [`LEDGER`].
pub const REPORT: Part = Part { name: "report_common", text: include_str!("../../../lua/report_common.lua") };

/// What stands in front of scripts that append to the feed's ledger: KEYS 8 to 10, ARGV 10 to 12.
pub const APPEND: Part = Part { name: "feed_ledger", text: include_str!("../../../lua/feed_ledger.lua") };

/// What stands in front of scripts that take gifts.
pub const GIFTS: Part = Part { name: "feed_gifts", text: include_str!("../../../lua/feed_gifts.lua") };

/// What stands in front of scripts whose KEYS 6 and 7 are the feed's due queue.
pub const DUE: Part = Part { name: "feed_due", text: include_str!("../../../lua/feed_due.lua") };

/// The part of publishing that is all of it most of the time.
pub const NOW: Part =
    Part { name: "feed_publish_now", text: include_str!("../../../lua/feed_publish_now.lua") };

/// Every part there is.
pub const PARTS: [Part; 8] = [COMMON, LEDGER, REPORT, APPEND, GIFTS, NOW, DUE, DROPS];

/// What stands in front of the scripts of drops.
pub const DROPS: Part = Part { name: "feed_drops", text: include_str!("../../../lua/feed_drops.lua") };

/// KEYS and ARGV that every script of drops begins with.
pub const DROPS_BEGIN: (usize, usize) = (15, 15);

/// ARGV that every feed script begins with; its KEYS are five.
pub const COMMON_ARGS: usize = 9;

impl Script {
    /// What Redis runs.
    pub fn source(&self) -> String {
        let mut source = String::new();
        for part in self.parts {
            source.push_str(part.text);
            source.push('\n');
        }
        source + self.text
    }

    /// The SHA-1 by which Redis knows it, in hex.
    pub(super) fn sha(&self) -> &str {
        self.code.get_hash()
    }

    /// A call of it with these KEYS; ARGV are to follow.
    pub(super) fn call(&self, keys: &[impl redis::ToRedisArgs]) -> redis::Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(self.sha()).arg(keys.len()).arg(keys);
        cmd
    }

    /// Panics, where debugging, on a call that is not as the header says; `many` is how many gifts (or
    /// whatever the script takes many of) it has.
    pub(super) fn check(&self, call: &redis::Cmd, many: usize) {
        debug_assert_eq!(
            call.args_iter().count(),
            3 + self.keys.0 + many * self.keys.1 + self.args.0 + many * self.args.1,
            "{} is called as its header says",
            self.name
        );
    }
}

macro_rules! script {
    ($name:ident, $file:literal, [$($part:ident),*], keys $keys:expr, args $args:expr) => {
        /// The script of this name in `lua/`.
        pub static $name: Script = Script {
            name: $file,
            parts: &[$($part),*],
            text: include_str!(concat!("../../../lua/", $file, ".lua")),
            keys: $keys,
            args: $args,
            code: LazyLock::new(|| redis::Script::new(&$name.source())),
        };
    };
}

script!(PUBLISH, "feed_publish", [COMMON, LEDGER, APPEND, GIFTS, NOW, DUE], keys(10, 2), args(14, 6));
script!(SHOW, "feed_show", [COMMON, LEDGER, APPEND, GIFTS, DUE], keys(10, 2), args(12, 6));
script!(UNSCHEDULE, "feed_unschedule", [COMMON, DUE], keys(8, 0), args(10, 0));
script!(RETRACT, "feed_retract", [COMMON], keys(5, 0), args(10, 0));
script!(RETRACT_USER, "feed_retract_user", [COMMON], keys(5, 0), args(10, 0));
script!(RETRACT_GIFT, "feed_retract_gift", [COMMON, LEDGER, APPEND, DUE], keys(11, 0), args(13, 0));
script!(CONTROL, "feed_control", [COMMON], keys(6, 0), args(11, 0));
script!(POLICY, "feed_policy", [COMMON], keys(5, 0), args(11, 0));
script!(SNAPSHOT, "feed_snapshot", [COMMON], keys(7, 0), args(9, 0));
script!(CHANGES, "feed_changes", [COMMON], keys(5, 0), args(12, 0));
script!(DROP_DEFINE, "feed_drop_define", [COMMON, LEDGER, APPEND, DROPS], keys(15, 0), args(18, 0));
script!(DROP_TICK, "feed_drop_tick", [COMMON, LEDGER, APPEND, DROPS], keys(15, 0), args(15, 0));
script!(DROP_CLAIM, "feed_drop_claim", [COMMON, LEDGER, APPEND, DROPS], keys(15, 0), args(15, 7));
script!(DROP_END, "feed_drop_end", [COMMON, LEDGER, APPEND, DROPS], keys(15, 0), args(17, 0));
script!(HOLDS, "feed_holds", [COMMON], keys(6, 0), args(11, 0));
script!(DUE_ENTRIES, "due_entries", [], keys(2, 0), args(5, 0));
script!(DUE_ASIDE, "due_aside", [], keys(5, 0), args(9, 0));
script!(DUE_REGISTER, "due_register", [], keys(2, 0), args(6, 0));
script!(DUE_TURNS, "due_turns", [], keys(2, 0), args(3, 3));
script!(REPORT_TAKE, "report_take", [LEDGER, REPORT], keys(9, 0), args(10, 0));
script!(REPORT_SETTLE, "report_settle", [LEDGER, REPORT], keys(9, 0), args(4, 1));
script!(REPORT_VIEW, "report_view", [LEDGER, REPORT], keys(9, 0), args(2, 0));
script!(REPORT_FORGET, "report_forget", [LEDGER, REPORT], keys(9, 0), args(2, 0));
script!(REPORT_REPLAY, "report_replay", [LEDGER, REPORT], keys(9, 0), args(4, 1));
script!(REPORT_HOOK, "report_hook", [LEDGER, REPORT], keys(10, 0), args(8, 0));
script!(REPORT_ATTACH, "report_attach", [LEDGER, REPORT], keys(3, 0), args(5, 3));
script!(REPORT_JOB, "report_job", [LEDGER, REPORT], keys(9, 0), args(11, 4));
script!(HOOKS_SWAP, "hooks_swap", [], keys(2, 0), args(6, 0));
script!(SOURCE_SWAP, "source_swap", [], keys(2, 0), args(4, 0));
script!(SOURCE_NOTE, "source_note", [], keys(2, 0), args(4, 0));
script!(SOURCE_REFUND, "source_refund", [], keys(1, 0), args(3, 0));

/// Every script there is.
pub static ALL: [&Script; 31] = [
    &PUBLISH,
    &SHOW,
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
    &SOURCE_SWAP,
    &SOURCE_NOTE,
    &SOURCE_REFUND,
];
