//! The Lua scripts and what each is called with. `lua/*.lua` are the texts; a test compares their
//! headers with [`ALL`].

use std::sync::LazyLock;

/// One script: its text, and how many KEYS and ARGV it takes.
pub struct Script {
    /// The name of its file without `.lua`.
    pub name: &'static str,
    /// Its own file.
    pub text: &'static str,
    /// KEYS whatever the call, and KEYS per gift.
    pub keys: (usize, usize),
    /// ARGV whatever the call, and ARGV per gift.
    pub args: (usize, usize),
    /// True when [`DROPS`] stands between [`COMMON`] and its own file.
    pub of_drops: bool,
    code: LazyLock<redis::Script>,
}

/// What stands in front of every feed script.
pub const COMMON: &str = include_str!("../../../lua/feed_common.lua");

/// What the scripts of drops have besides.
pub const DROPS: &str = include_str!("../../../lua/feed_drops.lua");

/// KEYS and ARGV that every script of drops begins with.
pub const DROPS_BEGIN: (usize, usize) = (12, 12);

/// ARGV that every feed script begins with; its KEYS are five.
pub const COMMON_ARGS: usize = 9;

impl Script {
    /// What Redis runs.
    pub fn source(&self) -> String {
        let drops = if self.of_drops { DROPS } else { "" };
        format!("{COMMON}\n{drops}\n{}", self.text)
    }

    /// True when it can be called with so many KEYS and ARGV.
    pub(super) fn takes(&self, keys: usize, args: usize) -> bool {
        let each =
            |have: usize, (least, more): (usize, usize)| have.checked_sub(least).map(|rest| (rest, more));
        let times = |part: Option<(usize, usize)>| match part {
            Some((0, 0)) => Some(None),
            Some((rest, more)) if more > 0 && rest % more == 0 => Some(Some(rest / more)),
            _ => None,
        };
        match (times(each(keys, self.keys)), times(each(args, self.args))) {
            (Some(Some(a)), Some(Some(b))) => a == b,
            (Some(_), Some(_)) => true,
            _ => false,
        }
    }

    /// The SHA-1 by which Redis knows it, in hex.
    pub(super) fn sha(&self) -> &str {
        self.code.get_hash()
    }
}

macro_rules! script {
    ($name:ident, $file:literal, keys $keys:expr, args $args:expr) => {
        script!($name, $file, keys $keys, args $args, of_drops false);
    };
    ($name:ident, $file:literal, keys $keys:expr, args $args:expr, of_drops $of_drops:expr) => {
        /// The script of this name in `lua/`.
        pub static $name: Script = Script {
            name: $file,
            text: include_str!(concat!("../../../lua/", $file, ".lua")),
            keys: $keys,
            args: $args,
            of_drops: $of_drops,
            code: LazyLock::new(|| redis::Script::new(&$name.source())),
        };
    };
}

script!(PUBLISH, "feed_publish", keys(5, 2), args(9, 10));
script!(RETRACT, "feed_retract", keys(5, 0), args(10, 0));
script!(POLICY, "feed_policy", keys(5, 0), args(11, 0));
script!(SNAPSHOT, "feed_snapshot", keys(6, 0), args(9, 0));
script!(CHANGES, "feed_changes", keys(5, 0), args(12, 0));
script!(DROP_DEFINE, "feed_drop_define", keys(12, 0), args(15, 0), of_drops true);
script!(DROP_TICK, "feed_drop_tick", keys(12, 0), args(12, 0), of_drops true);
script!(DROP_CLAIM, "feed_drop_claim", keys(12, 0), args(12, 7), of_drops true);
script!(DROP_END, "feed_drop_end", keys(12, 0), args(14, 0), of_drops true);
script!(HOLDS, "feed_holds", keys(6, 0), args(11, 0));

/// Every script there is.
pub static ALL: [&Script; 10] = [
    &PUBLISH,
    &RETRACT,
    &POLICY,
    &SNAPSHOT,
    &CHANGES,
    &DROP_DEFINE,
    &DROP_TICK,
    &DROP_CLAIM,
    &DROP_END,
    &HOLDS,
];
