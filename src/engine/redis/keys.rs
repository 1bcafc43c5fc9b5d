//! How keys and channels are spelled, all of them. Everything of a feed carries the hash tag
//! `{feed}`, so one script touches one slot.

use crate::domain::{DropId, FeedId, Gift, GiftId, HookId, Reader, row};

/// The spelling under one prefix.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

/// How many keys every feed script takes before those of its gifts.
pub(super) const FEED_KEYS: usize = 5;

impl Keys {
    pub(super) fn new(prefix: &str) -> Result<Keys, String> {
        // A brace before the feed's would move the hash tag, and with it the slot.
        if prefix.contains(['{', '}']) || prefix.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(format!("the key prefix {prefix:?} must not hold braces or white space"));
        }
        Ok(Keys { prefix: prefix.to_owned() })
    }

    fn of(&self, feed: &FeedId, what: &str) -> String {
        self.named(feed, what, "")
    }

    /// By hand: gifts have two each.
    fn named(&self, feed: &FeedId, what: &str, name: &str) -> String {
        let mut key =
            String::with_capacity(self.prefix.len() + feed.as_str().len() + what.len() + name.len() + 3);
        for part in [&self.prefix, "{", feed.as_str(), "}:", what, name] {
            key.push_str(part);
        }
        key
    }

    /// `list`, `rows`, `hist`, `meta`, `policy`: in the order of every feed script.
    pub(super) fn feed(&self, feed: &FeedId) -> [String; FEED_KEYS] {
        ["list", "rows", "hist", "meta", "policy"].map(|what| self.of(feed, what))
    }

    /// Where a feed stands.
    pub(super) fn meta(&self, feed: &FeedId) -> String {
        self.of(feed, "meta")
    }

    /// A feed's sources, and what came to them. In the feed's slot, to which a source's path leads.
    pub(super) fn sources(&self, feed: &FeedId) -> [String; 2] {
        ["sources", "sources_came"].map(|what| self.of(feed, what))
    }

    /// A feed's refunded gifts.
    pub(super) fn refunds(&self, feed: &FeedId) -> String {
        self.of(feed, "refunds")
    }

    /// A feed's overrides.
    pub(super) fn policy(&self, feed: &FeedId) -> String {
        self.of(feed, "policy")
    }

    /// What is remembered of a gift's id.
    pub(super) fn id(&self, feed: &FeedId, gift: &GiftId) -> String {
        self.named(feed, "id:", gift.as_str())
    }

    /// `due`, `later`: a feed's due queue.
    pub(super) fn due(&self, feed: &FeedId) -> [String; 2] {
        ["due", "later"].map(|what| self.of(feed, what))
    }

    /// `tries`, `dead`: what could not be handled.
    pub(super) fn failed(&self, feed: &FeedId) -> [String; 2] {
        ["tries", "dead"].map(|what| self.of(feed, what))
    }

    /// `feeds`, `marks`: one part of the index of feeds with something due.
    pub(super) fn index(&self, part: usize) -> [String; 2] {
        let prefix = &self.prefix;
        ["feeds", "marks"].map(|what| format!("{prefix}{{due:{part}}}:{what}"))
    }

    /// The channel on which a part of the index wakes the nodes.
    pub(super) fn wake(&self, part: usize) -> String {
        format!("{}{{due:{part}}}:wake", self.prefix)
    }

    /// The dedup lock that a gift would take.
    pub(super) fn lock(&self, feed: &FeedId, gift: &Gift) -> String {
        self.named(feed, "lock:", &row::lock_key(gift))
    }

    /// What watchers were told of the feed's drops.
    pub(super) fn shown(&self, feed: &FeedId) -> String {
        self.of(feed, "shown")
    }

    /// How many watch the feed, by node.
    pub(super) fn watching(&self, feed: &FeedId) -> String {
        self.of(feed, "watching")
    }

    /// There while a node lives. One slot for all of them, so that they are asked for together.
    pub(super) fn node(&self, node: &str) -> String {
        format!("{}{{presence}}:{node}", self.prefix)
    }

    /// What overlays were told to do.
    pub(super) fn control(&self, feed: &FeedId) -> String {
        self.of(feed, "control")
    }

    /// The live holds of the feed's users.
    pub(super) fn unpaid(&self, feed: &FeedId) -> String {
        self.of(feed, "unpaid")
    }

    /// The feed's drops.
    pub(super) fn drops(&self, feed: &FeedId) -> String {
        self.of(feed, "drops")
    }

    /// `due`, `drops`, those of [`Keys::ledger`], `shown`, `unpaid`, and of the drop `claims`, `holds`, `units`: in the order of every
    /// script of drops, after those of [`Keys::feed`].
    pub(super) fn drop(&self, feed: &FeedId, drop: &DropId) -> Vec<String> {
        let own = ["claims", "holds", "units"].map(|what| self.of(feed, &format!("{what}:{drop}")));
        let [ledger, reports, readers] = self.ledger(feed);
        let queue = [self.of(feed, "due"), self.drops(feed)];
        let shared = [ledger, reports, readers, self.shown(feed), self.unpaid(feed)];
        queue.into_iter().chain(shared).chain(own).collect()
    }

    /// `ledger`, `reports`, `readers`: what happened in the feed, and who reads it.
    pub(super) fn ledger(&self, feed: &FeedId) -> [String; 3] {
        ["ledger", "reports", "readers"].map(|what| self.of(feed, what))
    }

    /// Those of [`Keys::ledger`], then what one reader has: `pending`, `leases`, `tries`, `again`, `dead`,
    /// `deaths`.
    pub(super) fn reader(&self, feed: &FeedId, reader: &Reader) -> Vec<String> {
        let name = reader.to_string();
        let own = ["pending:", "leases:", "tries:", "again:", "dead:", "deaths:"];
        let own = own.map(|what| self.named(feed, what, &name));
        self.ledger(feed).into_iter().chain(own).collect()
    }

    /// A feed's webhooks.
    pub(super) fn hooks(&self, feed: &FeedId) -> String {
        self.of(feed, "hooks")
    }

    /// `all`, `version`: the webhooks of all feeds, and the version of the set of their names.
    pub(super) fn hooks_of_all(&self) -> [String; 2] {
        ["all", "version"].map(|what| format!("{}{{hooks}}:{what}", self.prefix))
    }

    /// Feeds that have webhooks of their own.
    pub(super) fn hook_feeds(&self) -> String {
        format!("{}{{hooks}}:feeds", self.prefix)
    }

    /// Feeds in which a webhook of all feeds has dead letters.
    pub(super) fn letter_feeds(&self, hook: &HookId) -> String {
        format!("{}{{hooks}}:letters:{hook}", self.prefix)
    }

    /// `FEED GROUP` of every group.
    pub(super) fn groups(&self) -> String {
        format!("{}{{reports}}:groups", self.prefix)
    }

    /// `feeds`, `marks`: the index of webhooks with something to send, whose members are `READER FEED`.
    pub(super) fn jobs(&self) -> [String; 2] {
        ["feeds", "marks"].map(|what| format!("{}{{rep:0}}:{what}", self.prefix))
    }

    /// The channel on which that wakes the nodes.
    pub(super) fn job_wake(&self) -> String {
        format!("{}{{rep:0}}:wake", self.prefix)
    }

    /// The channel of a feed's changes.
    pub(super) fn live(&self, feed: &FeedId) -> String {
        self.of(feed, "live")
    }

    /// The channel on which one process hears its own probes.
    pub(super) fn probe(&self, process: u64) -> String {
        format!("{}probe:{process:x}", self.prefix)
    }
}

/// The part of the index, of so many, that a feed belongs to: the same on every node (FNV-1a).
pub(super) fn part_of(feed: &FeedId, parts: usize) -> usize {
    let hash = feed.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash % parts.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_feed_has_its_hash_tag() {
        let keys = Keys::new("tc:").unwrap();
        let feed: FeedId = "room1".parse().unwrap();
        assert_eq!(keys.feed(&feed)[0], "tc:{room1}:list");
        assert_eq!(keys.live(&feed), "tc:{room1}:live");
        assert_eq!(keys.due(&feed), ["tc:{room1}:due", "tc:{room1}:later"]);
        assert!(Keys::new("a{b}").is_err());
    }

    #[test]
    fn a_part_of_the_index_is_one_slot_and_feeds_spread_over_them() {
        let keys = Keys::new("tc:").unwrap();
        assert_eq!(keys.index(3)[0], "tc:{due:3}:feeds");
        let parts: std::collections::BTreeSet<usize> =
            (0..64).map(|n| part_of(&format!("room{n}").parse().unwrap(), 4)).collect();
        assert_eq!(parts.len(), 4);
        assert_eq!(part_of(&"room".parse().unwrap(), 1), 0);
    }
}
