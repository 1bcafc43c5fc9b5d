//! How keys and channels are spelled, all of them. Everything of a feed carries the hash tag
//! `{feed}`, so one script touches one slot.

use super::net::slots::{SLOTS, slot_of_tag, tag_for};
use crate::domain::{DropId, FeedId, Gift, GiftId, HookId, Reader, row};

/// How what is about several feeds is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Division {
    /// One shard has everything: due feeds in so many parts, by a hash of their names, and one part of the rest.
    ByName(usize),
    /// By ranges of slots, so that a part mostly shares the server, and so the fate, of its feeds.
    BySlot,
}

/// The parts of an index that there may be; the second half are those of the other [`Division`], in which a store
/// that was moved to a cluster, or from one, may have left something.
pub(super) const PARTS_ALL: usize = 2 * PARTS_MAX;

/// Parts of an index that there may be, whatever this node's setting says.
pub const PARTS_MAX: usize = 16;

/// The spelling under one prefix.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
    division: Division,
    /// By part: what its hash tags end with, so that they are in its slots.
    suffixes: [Vec<String>; 4],
}

/// An index or a list of names that is about several feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    /// Feeds with something due.
    Due,
    /// Webhooks with something to send.
    Jobs,
    /// Feeds with webhooks, and with dead letters.
    Hooks,
    /// Groups.
    Groups,
}

impl Shared {
    fn word(self) -> &'static str {
        match self {
            Shared::Due => "due",
            Shared::Jobs => "rep",
            Shared::Hooks => "hooks",
            Shared::Groups => "reports",
        }
    }
}

/// How many keys every feed script takes before those of its gifts.
pub(super) const FEED_KEYS: usize = 5;

impl Keys {
    pub(super) fn new(prefix: &str, division: Division) -> Result<Keys, String> {
        // A brace before the feed's would move the hash tag, and with it the slot.
        if prefix.contains(['{', '}']) || prefix.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(format!("the key prefix {prefix:?} must not hold braces or white space"));
        }
        let kinds = [Shared::Due, Shared::Jobs, Shared::Hooks, Shared::Groups];
        let suffixes = kinds.map(|kind| {
            let tag = |part: u16| {
                tag_for(&format!("{}:s{part}", kind.word()), |slot| slot / SLOTS_OF_A_PART == part)
            };
            (0..PARTS_MAX as u16).map(tag).collect()
        });
        Ok(Keys { prefix: prefix.to_owned(), division, suffixes })
    }

    /// How many parts this node writes to.
    pub(super) fn parts(&self, what: Shared) -> usize {
        match (self.division, what) {
            (Division::BySlot, _) => PARTS_MAX,
            (Division::ByName(parts), Shared::Due) => parts.clamp(1, PARTS_MAX),
            (Division::ByName(_), _) => 1,
        }
    }

    /// The part to which a feed belongs: the same on every node.
    pub(super) fn part_of(&self, what: Shared, feed: &FeedId) -> usize {
        match self.division {
            Division::BySlot => usize::from(slot_of_tag(feed.as_str()) / SLOTS_OF_A_PART),
            Division::ByName(_) => hashed(feed, self.parts(what)),
        }
    }

    /// `{tag}:NAME` of a part, those of [`PARTS_ALL`].
    fn shared(&self, what: Shared, part: usize, name: &str) -> String {
        let by_slot = (self.division == Division::BySlot) == (part < PARTS_MAX);
        let prefix = &self.prefix;
        let (at, word) = (part % PARTS_MAX, what.word());
        match (by_slot, what) {
            (true, _) => format!("{prefix}{{{}}}:{name}", self.suffixes[what as usize][at]),
            (false, Shared::Due) => format!("{prefix}{{due:{at}}}:{name}"),
            (false, Shared::Jobs) => format!("{prefix}{{rep:0}}:{name}"),
            (false, _) => format!("{prefix}{{{word}}}:{name}"),
        }
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

    /// `count`, `tally`, `parts`, `left`, `told`: how a feed counts, what came, and what watchers were told of it.
    pub(super) fn counted(&self, feed: &FeedId) -> [String; 5] {
        ["count", "tally", "parts", "left", "told"].map(|what| self.of(feed, what))
    }

    /// `sums`, `gifters`, `ranks`: what was counted, and who gave.
    pub(super) fn tallied(&self, feed: &FeedId) -> [String; 3] {
        ["sums", "gifters", "ranks"].map(|what| self.of(feed, what))
    }

    /// `due`, `later`: a feed's due queue.
    pub(super) fn due(&self, feed: &FeedId) -> [String; 2] {
        ["due", "later"].map(|what| self.of(feed, what))
    }

    /// `tries`, `dead`: what could not be handled.
    pub(super) fn failed(&self, feed: &FeedId) -> [String; 2] {
        ["tries", "dead"].map(|what| self.of(feed, what))
    }

    /// `feeds`, `marks`: one part of an index.
    pub(super) fn index(&self, what: Shared, part: usize) -> [String; 2] {
        ["feeds", "marks"].map(|name| self.shared(what, part, name))
    }

    /// The channel on which a part of an index wakes the nodes.
    pub(super) fn wake(&self, what: Shared, part: usize) -> String {
        self.shared(what, part, "wake")
    }

    /// The dedup lock that a gift would take.
    pub(super) fn lock(&self, feed: &FeedId, gift: &Gift) -> String {
        self.named(feed, "lock:", &row::lock_key(gift))
    }

    /// What watchers were told of the feed's drops.
    pub(super) fn shown(&self, feed: &FeedId) -> String {
        self.of(feed, "shown")
    }

    /// Users whose gifts are not shown in the feed.
    pub(super) fn blocks(&self, feed: &FeedId) -> String {
        self.of(feed, "blocks")
    }

    /// Users whose gifts are shown in no feed.
    pub(super) fn blocks_of_all(&self) -> String {
        format!("{}{{blocks}}:all", self.prefix)
    }

    /// Users whose rows are being taken back in all feeds, beside those blocks.
    pub(super) fn walks(&self) -> String {
        format!("{}{{blocks}}:walks", self.prefix)
    }

    /// What the keys of rows of all feeds look like, as SCAN is told.
    pub(super) fn rows_of_any(&self) -> String {
        let mut pattern = String::new();
        for c in self.prefix.chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '^' | '\\') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern + "{*}:rows"
    }

    /// Whose rows this key has; none when it is not such a key.
    pub(super) fn feed_of_rows(&self, key: &str) -> Option<FeedId> {
        key.strip_prefix(&self.prefix)?.strip_prefix('{')?.strip_suffix("}:rows")?.parse().ok()
    }

    /// Gifts that wait for a host.
    pub(super) fn reviews(&self, feed: &FeedId) -> String {
        self.of(feed, "reviews")
    }

    /// Names that a host approved.
    pub(super) fn approved(&self, feed: &FeedId) -> String {
        self.of(feed, "approved")
    }

    /// How many watch the feed, by node.
    pub(super) fn watching(&self, feed: &FeedId) -> String {
        self.of(feed, "watching")
    }

    /// How many of them are overlays, by node. A hash of its own: nodes of before count whatever is in the other.
    pub(super) fn overlays(&self, feed: &FeedId) -> String {
        self.of(feed, "overlays")
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

    /// What one drop has: `claims`, `holds` or `units`.
    pub(super) fn of_drop(&self, feed: &FeedId, what: &str, drop: &DropId) -> String {
        self.named(feed, &format!("{what}:"), drop.as_str())
    }

    /// `ledger`, `reports`, `readers`: what happened in the feed, and who reads it.
    pub(super) fn ledger(&self, feed: &FeedId) -> [String; 3] {
        ["ledger", "reports", "readers"].map(|what| self.of(feed, what))
    }

    /// What one reader has: `pending`, `leases`, `tries`, `again`, `dead` or `deaths`.
    pub(super) fn of_reader(&self, feed: &FeedId, what: &str, reader: &Reader) -> String {
        self.named(feed, &format!("{what}:"), &reader.to_string())
    }

    /// A feed's webhooks.
    pub(super) fn hooks(&self, feed: &FeedId) -> String {
        self.of(feed, "hooks")
    }

    /// `all`, `version`: the webhooks of all feeds, and the version of the set of their names.
    pub(super) fn hooks_of_all(&self) -> [String; 2] {
        ["all", "version"].map(|what| format!("{}{{hooks}}:{what}", self.prefix))
    }

    /// `revoked`, `revoked_order`, `revoked_ends`, `revoked_head`: viewers whose tokens are refused.
    pub(super) fn revoked(&self) -> [String; 4] {
        ["revoked", "revoked_order", "revoked_ends", "revoked_head"]
            .map(|what| format!("{}{{viewers}}:{what}", self.prefix))
    }

    /// What a signed request is for. By slot: two keys, half of all slots apart.
    pub(super) fn request(&self, request: &str) -> Vec<String> {
        let prefix = &self.prefix;
        match self.division {
            Division::ByName(_) => vec![format!("{prefix}{{request:{request}}}:target")],
            Division::BySlot => {
                let part = usize::from(slot_of_tag(request) / SLOTS_OF_A_PART);
                let tag = |part: usize| &self.suffixes[Shared::Due as usize][part % PARTS_MAX];
                let key = |part: usize| format!("{prefix}{{{}}}:request:{request}", tag(part));
                vec![key(part), key(part + PARTS_MAX / 2)]
            }
        }
    }

    /// The channel that tells of another set of webhooks of all feeds.
    pub(super) fn hooks_wake(&self) -> String {
        format!("{}{{hooks}}:wake", self.prefix)
    }

    /// Feeds that have webhooks of their own.
    pub(super) fn hook_feeds(&self, part: usize) -> String {
        self.shared(Shared::Hooks, part, "feeds")
    }

    /// Feeds in which a webhook of all feeds has dead letters.
    pub(super) fn letter_feeds(&self, part: usize, hook: &HookId) -> String {
        self.shared(Shared::Hooks, part, &format!("letters:{hook}"))
    }

    /// `FEED GROUP` of every group.
    pub(super) fn groups(&self, part: usize) -> String {
        self.shared(Shared::Groups, part, "groups")
    }

    /// The channel of a feed's changes.
    pub(super) fn live(&self, feed: &FeedId) -> String {
        self.of(feed, "live")
    }

    /// A channel that this process may publish on and nobody listens to.
    pub(super) fn hello(&self) -> String {
        format!("{}{{probe}}:hello", self.prefix)
    }
}

/// Slots of one part.
const SLOTS_OF_A_PART: u16 = SLOTS / PARTS_MAX as u16;

/// The part, of so many, that a name belongs to (FNV-1a).
fn hashed(feed: &FeedId, parts: usize) -> usize {
    let hash = feed.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash % parts.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::super::net::slots::slot_of_key;
    use super::*;

    #[test]
    fn every_key_of_a_feed_has_its_hash_tag() {
        let keys = Keys::new("tc:", Division::ByName(1)).unwrap();
        let feed: FeedId = "room1".parse().unwrap();
        assert_eq!(keys.feed(&feed)[0], "tc:{room1}:list");
        assert_eq!(keys.live(&feed), "tc:{room1}:live");
        assert_eq!(keys.due(&feed), ["tc:{room1}:due", "tc:{room1}:later"]);
        assert!(Keys::new("a{b}", Division::BySlot).is_err());
    }

    #[test]
    fn by_name_parts_are_spelled_as_ever_and_feeds_spread_over_them() {
        let keys = Keys::new("tc:", Division::ByName(4)).unwrap();
        assert_eq!(keys.index(Shared::Due, 3)[0], "tc:{due:3}:feeds");
        assert_eq!(keys.index(Shared::Jobs, 0)[1], "tc:{rep:0}:marks");
        assert_eq!(
            (keys.hook_feeds(0), keys.groups(0)),
            ("tc:{hooks}:feeds".into(), "tc:{reports}:groups".into())
        );
        let part = |n: usize| keys.part_of(Shared::Due, &format!("room{n}").parse().unwrap());
        assert_eq!((0..64).map(part).collect::<std::collections::BTreeSet<_>>().len(), 4);
        assert_eq!(keys.part_of(Shared::Jobs, &"room".parse().unwrap()), 0);
    }

    #[test]
    fn a_signed_request_is_recorded_once_or_in_slots_that_are_far_apart() {
        let single = Keys::new("tc:", Division::ByName(4)).unwrap();
        assert_eq!(single.request("ab12"), ["tc:{request:ab12}:target"]);
        let cluster = Keys::new("tc:", Division::BySlot).unwrap();
        for n in 0..100 {
            let slots: Vec<_> =
                cluster.request(&format!("r{n}")).iter().map(|key| slot_of_key(key)).collect();
            // Further than the range of a shard, of three or more, is wide.
            assert!(slots.len() == 2 && slots[0].abs_diff(slots[1]) > SLOTS / 3, "{slots:?}");
        }
    }

    #[test]
    fn by_slot_a_part_is_among_the_slots_of_its_feeds() {
        let keys = Keys::new("tc:", Division::BySlot).unwrap();
        for n in 0..200 {
            let feed: FeedId = format!("room{n}").parse().unwrap();
            let part = keys.part_of(Shared::Due, &feed);
            let home = slot_of_tag(feed.as_str()) / 1024;
            for key in
                [keys.index(Shared::Due, part)[0].clone(), keys.wake(Shared::Jobs, part), keys.groups(part)]
            {
                assert_eq!(slot_of_key(&key) / 1024, home, "{key}");
            }
        }
        // What a single Redis left is found.
        assert_eq!(keys.index(Shared::Due, PARTS_MAX + 2)[0], "tc:{due:2}:feeds");
        let single = Keys::new("tc:", Division::ByName(1)).unwrap();
        assert_eq!(single.index(Shared::Due, PARTS_MAX + 2), keys.index(Shared::Due, 2));
    }
}
