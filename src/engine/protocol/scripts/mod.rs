//! The Lua scripts and what each is called with. `lua/*.lua` are the texts; a test compares their
//! headers with [`ALL`].

use std::sync::{Arc, LazyLock};

mod call;
mod header;
mod rights;

pub(in crate::engine) use call::Call;
pub use call::Room;
pub use header::{Header, Use};
pub use rights::COMMANDS;
use rights::ScriptNeeds;

/// One script: its text, and what it is called with.
pub struct Script {
    /// What it is called in logs and by `tipcast script`.
    pub name: &'static str,
    /// Its file in `lua/`, without `.lua`.
    pub file: &'static str,
    /// Its own file.
    pub text: &'static str,
    /// Whether its answer promises something: then replicas must have what it wrote, where the operator wants that.
    pub promises: bool,
    header: LazyLock<Header>,
    whole: LazyLock<Arc<str>>,
    code: LazyLock<redis::Script>,
}

/// A text in front of several scripts. It has a scope of its own and returns a table.
pub struct Module {
    /// What scripts call it by: the last part of its file's name, unless that is taken.
    pub name: &'static str,
    /// Its file in `lua/`, without `.lua`.
    pub file: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! module {
    ($file:literal, $name:literal) => {
        Module { name: $name, file: $file, text: include_str!(concat!("../../../../lua/", $file, ".lua")) }
    };
}

/// Modules that a script names in its header, in `USES` and `LATER`.
pub const MODULES: [Module; 35] = [
    module!("clock", "clock"),
    module!("feed/policies", "policies"),
    module!("feed/list", "list"),
    module!("feed/feed", "feed"),
    module!("feed/doubt", "doubt"),
    module!("feed/settle", "settle"),
    module!("feed/row", "row"),
    module!("feed/rows", "rows"),
    module!("feed/merge", "merge"),
    module!("feed/lock", "lock"),
    module!("feed/locks", "locks"),
    module!("feed/receipt", "receipt"),
    module!("feed/receipts", "receipts"),
    module!("feed/gift", "gift"),
    module!("feed/combo", "combo"),
    module!("feed/frame", "frame"),
    module!("feed/waiting", "waiting"),
    module!("feed/blocks", "blocks"),
    module!("feed/screening", "screening"),
    module!("feed/retraction", "retraction"),
    module!("feed/reversal", "reversal"),
    module!("drops/stock", "stock"),
    module!("due/schedule", "schedule"),
    module!("ledger/writer", "ledger"),
    module!("ledger/room", "room"),
    module!("ledger/stored", "stored"),
    module!("ledger/reports", "reports"),
    module!("ledger/reader", "reader"),
    module!("totals/runs", "runs"),
    module!("totals/sums", "sums"),
    module!("totals/person", "person"),
    module!("totals/rankings", "rankings"),
    module!("totals/counting", "counting"),
    module!("totals/notices", "notices"),
    module!("totals/calendar", "calendar"),
];

impl Module {
    /// The Lua expression that makes the module, in a scope of its own; `check` comes first.
    fn made(&self, check: &str) -> String {
        format!("(function()\n{check}{}\nend)()", self.text)
    }
}

impl Script {
    /// What Redis runs; of a script that names what there is not, one that says so.
    pub fn source(&self) -> String {
        self.composed().unwrap_or_else(|why| format!("error({why:?})\n"))
    }

    /// The check of its rights, its modules, and its own text.
    ///
    /// # Errors
    /// When a name is in neither its header nor [`MODULES`]: which.
    pub fn composed(&self) -> Result<String, String> {
        let header = self.header();
        let modules = |names: &[&str]| names.iter().map(|name| module(name)).collect::<Result<Vec<_>, _>>();
        let (used, later) = (modules(&header.uses)?, modules(&header.later)?);
        let texts = |modules: &[&Module]| modules.iter().map(|it| it.text).collect::<String>();
        let at_once = texts(&used) + self.text;

        let mut text = String::from("local KEYS, ARGV, redis = KEYS, ARGV, redis\n");
        text.push_str(&header.strings(&[&texts(&later), at_once.as_str()].concat()));
        for part in &used {
            text.extend(["local ", part.name, "\n"]);
        }
        if !later.is_empty() {
            // Most calls need none of these modules, so one function makes each where it is first named.
            text.push_str(
                "local LATER\nLATER = setmetatable({}, { __index = function(made, name)\nlocal it\n",
            );
            for part in &later {
                let check = rights::check(self.name, header, part.text, ScriptNeeds::WritesOfModule);
                text.extend(["if name == '", part.name, "' then it = ", &part.made(&check), " end\n"]);
            }
            text.push_str("made[name] = it\nreturn it\nend })\n");
        }
        for part in &used {
            text.extend([part.name, " = ", &part.made(""), "\n"]);
        }
        // Only scripts of a feed do all their reading before they write.
        let reads_first = header.uses.contains(&"feed");
        let asked = if reads_first { ScriptNeeds::Writes } else { ScriptNeeds::All };
        let check = rights::check(self.name, header, &at_once, asked);
        Ok(check + &header.numbered(&(text + self.text))?)
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

/// The module of this name.
fn module(name: &str) -> Result<&'static Module, String> {
    MODULES.iter().find(|it| it.name == name).ok_or_else(|| format!("there is no module {name}"))
}

macro_rules! script {
    ($name:ident, $called:literal, $file:literal, $promises:literal) => {
        /// The script of this name in `lua/`.
        pub static $name: Script = Script {
            name: $called,
            file: $file,
            text: include_str!(concat!("../../../../lua/", $file, ".lua")),
            promises: $promises,
            header: LazyLock::new(|| Header::read($name.text).unwrap_or_default()),
            whole: LazyLock::new(|| $name.source().into()),
            code: LazyLock::new(|| redis::Script::new(&$name.whole)),
        };
    };
}

script!(PUBLISH, "feed_publish", "feed/publish", true);
script!(SHOW, "feed_show", "feed/show", false);
script!(REVIEW, "feed_review", "feed/review", true);
script!(BLOCK_CHANGE, "block_change", "feed/block_change", true);
script!(WALK_TURN, "walk_turn", "feed/walk_turn", true);
script!(TOTALS_TICK, "totals_tick", "totals/tick", false);
script!(TOTALS_RANK, "totals_rank", "totals/rank", false);
script!(TOTALS_SESSION, "totals_session", "totals/session", true);
script!(TOTALS_GOAL, "totals_goal", "totals/goal", true);
script!(TOTALS_READ, "totals_read", "totals/read", false);
script!(TOTALS_LEADERS, "totals_leaders", "totals/leaders", false);
script!(UNSCHEDULE, "feed_unschedule", "feed/unschedule", true);
script!(RETRACT, "feed_retract", "feed/retract", true);
script!(RETRACT_USER, "feed_retract_user", "feed/retract_user", true);
script!(RETRACT_GIFT, "feed_retract_gift", "feed/retract_gift", true);
script!(CONTROL, "feed_control", "feed/control", true);
script!(POLICY, "feed_policy", "feed/policy", true);
script!(SNAPSHOT, "feed_snapshot", "feed/snapshot", false);
script!(CHANGES, "feed_changes", "feed/changes", false);
script!(DROP_DEFINE, "feed_drop_define", "drops/define", true);
script!(DROP_TICK, "feed_drop_tick", "drops/tick", false);
script!(DROP_CLAIM, "feed_drop_claim", "drops/claim", true);
script!(DROP_END, "feed_drop_end", "drops/end", true);
script!(DROP_REVERSE, "feed_drop_reverse", "drops/reverse", true);
script!(DROP_LOOKUP, "feed_drop_lookup", "drops/lookup", false);
script!(HOLDS, "feed_holds", "drops/holds", false);
script!(DUE_ENTRIES, "due_entries", "due/entries", false);
script!(DUE_ASIDE, "due_aside", "due/aside", false);
script!(DUE_REGISTER, "due_register", "due/register", true);
script!(DUE_TURNS, "due_turns", "due/turns", false);
script!(DUE_REWIND, "due_rewind", "due/rewind", false);
script!(REPORT_TAKE, "report_take", "ledger/take", false);
script!(REPORT_SETTLE, "report_settle", "ledger/settle", true);
script!(REPORT_VIEW, "report_view", "ledger/view", false);
script!(REPORT_ENTRY, "report_entry", "ledger/entry", false);
script!(REPORT_SEEK, "report_seek", "ledger/seek", true);
script!(REPORT_READ, "report_read", "ledger/read", false);
script!(REPORT_FORGET, "report_forget", "ledger/forget", true);
script!(REPORT_REPLAY, "report_replay", "ledger/replay", true);
script!(REPORT_HOOK, "report_hook", "ledger/hook", true);
script!(REPORT_ATTACH, "report_attach", "ledger/attach", false);
script!(REPORT_JOB, "report_job", "ledger/job", false);
script!(HOOKS_SWAP, "hooks_swap", "ledger/hooks_swap", true);
script!(HOOKS_COPY, "hooks_copy", "ledger/hooks_copy", false);
script!(SIGNING_KEY, "signing_key", "ledger/signing_key", true);

script!(SOURCE_SWAP, "source_swap", "sources/swap", true);
script!(SOURCE_NOTE, "source_note", "sources/note", false);
script!(SOURCE_REFUND, "source_refund", "sources/refund", true);

script!(VIEWERS_REVOKE, "viewers_revoke", "viewers/revoke", true);
script!(VIEWERS_REVOKED, "viewers_revoked", "viewers/revoked", false);

script!(REQUEST_CLAIM, "request_claim", "sources/request_claim", true);

script!(PROBE, "probe", "probe", false);

/// Whether any script reads the member of this name of a feed's policy.
pub(in crate::engine) fn read_of_policy(name: &str) -> bool {
    let is_read = |text: &str| {
        ["policy.", "policies.defaults."].iter().any(|table| text.contains(&[table, name].concat()))
    };
    let modules = MODULES.iter().map(|module| module.text);
    ALL.iter().map(|script| script.text).chain(modules).any(is_read)
}

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
pub static ALL: [&Script; 52] = [
    &TOTALS_TICK,
    &TOTALS_RANK,
    &TOTALS_SESSION,
    &TOTALS_GOAL,
    &TOTALS_READ,
    &TOTALS_LEADERS,
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
    &DROP_REVERSE,
    &DROP_LOOKUP,
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
    &SIGNING_KEY,
    &SOURCE_SWAP,
    &SOURCE_NOTE,
    &SOURCE_REFUND,
    &VIEWERS_REVOKE,
    &VIEWERS_REVOKED,
    &REQUEST_CLAIM,
    &PROBE,
];
