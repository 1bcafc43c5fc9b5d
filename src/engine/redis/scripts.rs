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
    /// What stands in front of its own file: [`COMMON`], and what it shares with some others.
    pub before: &'static [&'static str],
    code: LazyLock<redis::Script>,
}

/// What stands in front of every feed script.
pub const COMMON: &str = include_str!("../../../lua/feed_common.lua");

/// What stands behind [`COMMON`] in scripts that take gifts.
pub const GIFTS: &str = include_str!("../../../lua/feed_gifts.lua");

/// ARGV that every feed script begins with; its KEYS are five.
pub const COMMON_ARGS: usize = 9;

impl Script {
    /// What Redis runs.
    pub fn source(&self) -> String {
        self.before.iter().chain([&self.text]).copied().collect::<Vec<_>>().join("\n")
    }

    /// The SHA-1 by which Redis knows it, in hex.
    pub(super) fn sha(&self) -> &str {
        self.code.get_hash()
    }
}

macro_rules! script {
    ($name:ident, $file:literal, keys $keys:expr, args $args:expr, after $before:expr) => {
        /// The script of this name in `lua/`.
        pub static $name: Script = Script {
            name: $file,
            text: include_str!(concat!("../../../lua/", $file, ".lua")),
            keys: $keys,
            args: $args,
            before: &$before,
            code: LazyLock::new(|| redis::Script::new(&$name.source())),
        };
    };
}

script!(PUBLISH, "feed_publish", keys(5, 2), args(9, 4), after [COMMON, GIFTS]);
script!(RETRACT, "feed_retract", keys(5, 0), args(10, 0), after[COMMON]);
script!(POLICY, "feed_policy", keys(5, 0), args(11, 0), after[COMMON]);
script!(SNAPSHOT, "feed_snapshot", keys(5, 0), args(9, 0), after[COMMON]);
script!(CHANGES, "feed_changes", keys(5, 0), args(12, 0), after[COMMON]);

/// Every script there is.
pub static ALL: [&Script; 5] = [&PUBLISH, &RETRACT, &POLICY, &SNAPSHOT, &CHANGES];
