//! How keys and channels are spelled, all of them. Everything of a feed carries the hash tag
//! `{feed}`, so one script touches one slot.

use std::fmt::Write;

use super::owner::Owner;
use super::slots::{SLOTS, slot_of_tag, tag_of_slot};
use crate::domain::{DropId, FeedId, Gift, GiftId, HookId, Reader, row};

/// How what is about several feeds is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    /// One shard has everything: due feeds in this number of parts, by a hash of their names, and one part of the rest.
    ByName(usize),
    /// A part for each shard, in one of its slots: whatever is away takes only its own feeds' part along.
    ByShard,
}

/// One part of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// Where one shard has everything.
    Named(usize),
    /// The part in this slot, which is or was the home of a shard ([`crate::engine::redis::layout::Layout::home`]).
    Slot(u16),
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Part::Named(number) => write!(f, "n{number}"),
            Part::Slot(slot) => write!(f, "s{slot}"),
        }
    }
}

impl std::str::FromStr for Part {
    type Err = ();

    fn from_str(text: &str) -> Result<Part, ()> {
        if let Some(slot) = text.strip_prefix('s') {
            return slot.parse().map(Part::Slot).map_err(drop);
        }
        text.strip_prefix('n').and_then(|number| number.parse().ok()).map(Part::Named).ok_or(())
    }
}

/// Parts of an index on one server that there may be, whatever this node's setting says.
pub const PARTS_MAX: usize = 16;

/// The spelling under one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
    division: Division,
    /// Channels are of the whole server, keys of one database: so a channel's name ends with the database's number.
    database: i64,
}

/// An index or a list of names that is about several feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedIndex {
    /// Feeds with something due.
    Due,
    /// Webhooks with something to send.
    Jobs,
    /// Feeds with webhooks, and with dead letters.
    Hooks,
    /// Groups.
    Groups,
    /// Names of feeds.
    Feeds,
}

impl SharedIndex {
    fn word(self) -> &'static str {
        match self {
            SharedIndex::Due => "due",
            SharedIndex::Jobs => "rep",
            SharedIndex::Hooks => "hooks",
            SharedIndex::Groups => "reports",
            SharedIndex::Feeds => "feeds",
        }
    }
}

/// How many keys every feed script takes before those of its gifts.
pub(crate) const FEED_KEYS: usize = 4;

impl Keys {
    pub(crate) fn new(prefix: &str, division: Division) -> Result<Keys, String> {
        // A brace before the feed's would move the hash tag, and with it the slot.
        if prefix.contains(['{', '}']) || prefix.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(format!("the key prefix {prefix:?} must not hold braces or white space"));
        }
        Ok(Keys { prefix: prefix.to_owned(), division, database: 0 })
    }

    /// The spelling for this database of the server.
    pub(crate) fn in_database(self, database: i64) -> Keys {
        Keys { database, ..self }
    }

    /// The channel of this name.
    fn channel(&self, mut name: String) -> String {
        let _ = write!(name, ":{}", self.database);
        name
    }

    /// How many parts this node writes to, where one shard has everything.
    pub(crate) fn named_parts(&self, what: SharedIndex) -> Option<usize> {
        match (self.division, what) {
            (Division::ByShard, _) => None,
            (Division::ByName(parts), SharedIndex::Due) => Some(parts.clamp(1, PARTS_MAX)),
            (Division::ByName(_), _) => Some(1),
        }
    }

    /// The part to which a feed belongs, where one shard has everything: the same on every node.
    pub(crate) fn named_part(&self, what: SharedIndex, feed: &FeedId) -> Option<Part> {
        self.named_parts(what).map(|parts| Part::Named(hashed(feed, parts)))
    }

    /// `{tag}:NAME` of a part.
    fn shared(&self, what: SharedIndex, part: Part, name: &str) -> String {
        let (prefix, word) = (&self.prefix, what.word());
        match (part, what) {
            (Part::Slot(slot), _) => format!("{prefix}{{{}}}:{word}:{name}", tag_of_slot(slot)),
            (Part::Named(at), SharedIndex::Due | SharedIndex::Jobs) => {
                format!("{prefix}{{{word}:{at}}}:{name}")
            }
            (Part::Named(_), _) => format!("{prefix}{{{word}}}:{name}"),
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

    /// `list`, `hist`, `meta`, `policy`: in the order of every feed script.
    pub(crate) fn feed(&self, feed: &FeedId) -> [String; FEED_KEYS] {
        ["list", "hist", "meta", "policy"].map(|what| self.of(feed, what))
    }

    /// The position of a feed.
    pub(crate) fn meta(&self, feed: &FeedId) -> String {
        self.of(feed, "meta")
    }

    /// A feed's sources, and what came to them. In the feed's slot, to which a source's path leads.
    pub(crate) fn sources(&self, feed: &FeedId) -> [String; 2] {
        ["sources", "sources_came"].map(|what| self.of(feed, what))
    }

    /// A feed's refunded gifts.
    pub(crate) fn refunds(&self, feed: &FeedId) -> [String; 2] {
        ["refunds", "refunded"].map(|what| self.of(feed, what))
    }

    /// A feed's overrides.
    pub(crate) fn policy(&self, feed: &FeedId) -> String {
        self.of(feed, "policy")
    }

    /// What is remembered of a gift's id.
    pub(crate) fn id(&self, feed: &FeedId, gift: &GiftId) -> String {
        self.named(feed, "id:", gift.as_str())
    }

    /// `totals`, `sums`, `people`, `unranked`: what a feed counts.
    pub(crate) fn totals(&self, feed: &FeedId) -> [String; 4] {
        ["totals", "sums", "people", "unranked"].map(|what| self.of(feed, what))
    }

    /// What rows have of totals.
    pub(crate) fn parts(&self, feed: &FeedId) -> String {
        self.of(feed, "parts")
    }

    /// What watchers know of totals and goals.
    pub(crate) fn announced(&self, feed: &FeedId) -> String {
        self.of(feed, "announced")
    }

    /// The rankings of these runs by these measures, both with blanks between (`lua/totals/rankings.lua`).
    pub(crate) fn rankings(&self, feed: &FeedId, runs: &str, measures: &str) -> Vec<String> {
        let words =
            |text: &str| text.split(' ').filter(|it| !it.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let measures = words(measures);
        let of_run = |run: String| {
            let key = format!("ranking:{run}:");
            measures.iter().map(|measure| self.named(feed, &key, measure)).collect::<Vec<_>>()
        };
        words(runs).into_iter().flat_map(of_run).collect()
    }

    /// Rows that were taken back whole.
    pub(crate) fn retracted(&self, feed: &FeedId) -> String {
        self.of(feed, "retracted")
    }

    /// `due`, `later`: a feed's due queue.
    pub(crate) fn due(&self, feed: &FeedId) -> [String; 2] {
        ["due", "later"].map(|what| self.of(feed, what))
    }

    /// `tries`, `dead`: what could not be handled.
    pub(crate) fn failed(&self, feed: &FeedId) -> [String; 2] {
        ["tries", "dead"].map(|what| self.of(feed, what))
    }

    /// `feeds`, `marks`: one part of an index.
    pub(crate) fn index(&self, what: SharedIndex, part: Part) -> [String; 2] {
        ["feeds", "marks"].map(|name| self.shared(what, part, name))
    }

    /// The channel on which a part of an index wakes the nodes.
    pub(crate) fn wake(&self, what: SharedIndex, part: Part) -> String {
        self.channel(self.shared(what, part, "wake"))
    }

    /// The dedup lock that a gift would take; of a frame, which takes none, how far its combo is.
    pub(crate) fn lock(&self, feed: &FeedId, gift: &Gift) -> String {
        match row::combo_key(gift) {
            Some(key) => self.named(feed, "combo:", &key),
            None => self.named(feed, "lock:", &row::lock_key(gift)),
        }
    }

    /// The feed's drops as they were announced.
    pub(crate) fn shown(&self, feed: &FeedId) -> String {
        self.of(feed, "shown")
    }

    /// Users whose gifts are not shown in the feed.
    pub(crate) fn blocks(&self, feed: &FeedId) -> String {
        self.of(feed, "blocks")
    }

    /// Users whose gifts are shown in no feed.
    pub(crate) fn blocks_of_all(&self) -> String {
        format!("{}{{blocks}}:all", self.prefix)
    }

    /// Users whose rows are being taken back in all feeds, beside those blocks.
    pub(crate) fn walks(&self) -> String {
        format!("{}{{blocks}}:walks", self.prefix)
    }

    /// A pattern for SCAN: the lists of all feeds.
    pub(crate) fn list_of_any(&self) -> String {
        format!("{}{{*}}:list", literal(&self.prefix))
    }

    /// The feed whose list this key is, if it is one.
    pub(crate) fn feed_of_list(&self, key: &str) -> Option<FeedId> {
        key.strip_prefix(&self.prefix)?.strip_prefix('{')?.strip_suffix("}:list")?.parse().ok()
    }

    /// Gifts that wait for a host.
    pub(crate) fn reviews(&self, feed: &FeedId) -> String {
        self.of(feed, "reviews")
    }

    /// Names that a host approved.
    pub(crate) fn approved(&self, feed: &FeedId) -> String {
        self.of(feed, "approved")
    }

    /// How many watch the feed, by node.
    pub(crate) fn watching(&self, feed: &FeedId) -> String {
        self.of(feed, "watching")
    }

    /// How many of them are overlays, by node.
    pub(crate) fn overlays(&self, feed: &FeedId) -> String {
        self.of(feed, "overlays")
    }

    /// There while a node lives. One slot for all of them, so that they are asked for together.
    pub(crate) fn node(&self, node: &str) -> String {
        format!("{}{{presence}}:node:{node}", self.prefix)
    }

    /// Runs of nodes. One slot for all that nodes report.
    pub(crate) fn node_names(&self) -> String {
        format!("{}{{nodes}}:names", self.prefix)
    }

    /// What a run of a node said of itself last.
    pub(crate) fn node_state(&self, run: &str) -> String {
        format!("{}{{nodes}}:state:{run}", self.prefix)
    }

    /// Its samples.
    pub(crate) fn node_series(&self, run: &str) -> String {
        format!("{}{{nodes}}:series:{run}", self.prefix)
    }

    /// Whether overlays are paused or muted.
    pub(crate) fn control(&self, feed: &FeedId) -> String {
        self.of(feed, "control")
    }

    /// The live holds of the feed's users.
    pub(crate) fn unpaid(&self, feed: &FeedId) -> String {
        self.of(feed, "unpaid")
    }

    /// The feed's drops.
    pub(crate) fn drops(&self, feed: &FeedId) -> String {
        self.of(feed, "drops")
    }

    /// What one drop has: `claims`, `holds` or `units`.
    pub(crate) fn of_drop(&self, feed: &FeedId, what: &str, drop: &DropId) -> String {
        self.named(feed, &format!("{what}:"), drop.as_str())
    }

    /// `ledger`, `reports`, `readers`: what happened in the feed, and who reads it.
    pub(crate) fn ledger(&self, feed: &FeedId) -> [String; 3] {
        ["ledger", "reports", "readers"].map(|what| self.of(feed, what))
    }

    /// What one reader has: `pending`, `leases`, `tries`, `again`, `dead` or `deaths`.
    pub(crate) fn of_reader(&self, feed: &FeedId, what: &str, reader: &Reader) -> String {
        self.named(feed, &format!("{what}:"), &reader.to_string())
    }

    /// A feed's webhooks.
    pub(crate) fn hooks(&self, feed: &FeedId) -> String {
        self.of(feed, "hooks")
    }

    /// `all`, `version`: the webhooks of all feeds, and the version of the set of their names.
    pub(crate) fn hooks_of_all(&self) -> [String; 2] {
        ["all", "version"].map(|what| format!("{}{{hooks}}:{what}", self.prefix))
    }

    /// `revoked`, `revoked_order`, `revoked_ends`, `revoked_head`: viewers whose tokens are refused.
    pub(crate) fn revoked(&self) -> [String; 4] {
        ["revoked", "revoked_order", "revoked_ends", "revoked_head"]
            .map(|what| format!("{}{{viewers}}:{what}", self.prefix))
    }

    /// What a signed request is for. By slot: two keys, half of all slots apart.
    pub(crate) fn request(&self, request: &str) -> Vec<String> {
        let prefix = &self.prefix;
        match self.division {
            Division::ByName(_) => vec![format!("{prefix}{{request:{request}}}:target")],
            Division::ByShard => {
                let slot = slot_of_tag(request);
                let far = (slot + SLOTS / 2) % SLOTS;
                [slot, far].map(|slot| format!("{prefix}{{{}}}:request:{request}", tag_of_slot(slot))).into()
            }
        }
    }

    /// The channel by which nodes hear of a revocation at once.
    pub(crate) fn revoked_wake(&self) -> String {
        self.channel(format!("{}{{viewers}}:wake", self.prefix))
    }

    /// The channel that announces another set of webhooks of all feeds.
    pub(crate) fn hooks_wake(&self) -> String {
        self.channel(format!("{}{{hooks}}:wake", self.prefix))
    }

    /// Feeds that have webhooks of their own.
    pub(crate) fn hook_feeds(&self, part: Part) -> String {
        self.shared(SharedIndex::Hooks, part, "feeds")
    }

    /// `HOOK FEED` of feeds in which a webhook of all feeds has dead letters.
    pub(crate) fn letter_feeds(&self, part: Part) -> String {
        self.shared(SharedIndex::Hooks, part, "letters")
    }

    /// `all`, `version`: a shard's copy of the webhooks of all feeds, for when theirs is away.
    pub(crate) fn hooks_copy(&self, part: Part) -> [String; 2] {
        ["all", "version"].map(|what| self.shared(SharedIndex::Hooks, part, what))
    }

    /// The newest attempts to deliver to a feed's webhook.
    pub(crate) fn attempts(&self, feed: &FeedId, hook: &HookId) -> String {
        self.named(feed, "attempts:", hook.as_str())
    }

    /// The newest attempts to deliver to a webhook of all feeds.
    pub(crate) fn attempts_of_all(&self, hook: &HookId) -> String {
        format!("{}{{hooks}}:attempts_of_all:{hook}", self.prefix)
    }

    /// The key that deliveries are signed with, beside the webhooks of all feeds.
    pub(crate) fn signing_key(&self) -> String {
        format!("{}{{hooks}}:signing_key", self.prefix)
    }

    /// A shard's copy of it.
    pub(crate) fn signing_key_copy(&self, part: Part) -> String {
        self.shared(SharedIndex::Hooks, part, "signing_key")
    }

    /// Everything that lies in one part, whatever it is an index of.
    pub(crate) fn whole_part(&self, part: Part) -> [String; 8] {
        let [due, _] = self.index(SharedIndex::Due, part);
        let [jobs, _] = self.index(SharedIndex::Jobs, part);
        let [copy, _] = self.hooks_copy(part);
        [
            due,
            jobs,
            self.hook_feeds(part),
            self.letter_feeds(part),
            self.groups(part),
            self.feed_names(part),
            copy,
            self.signing_key_copy(part),
        ]
    }

    /// `FEED GROUP` of every group.
    pub(crate) fn groups(&self, part: Part) -> String {
        self.shared(SharedIndex::Groups, part, "groups")
    }

    /// The names of feeds that were written to.
    pub(crate) fn feed_names(&self, part: Part) -> String {
        self.shared(SharedIndex::Feeds, part, "names")
    }

    /// The channel of a feed's changes.
    pub(crate) fn live(&self, feed: &FeedId) -> String {
        self.channel(self.of(feed, "live"))
    }

    /// How far a move into these keys is, while it is under way.
    pub(crate) fn moving(&self) -> String {
        format!("{}{{move}}:state", self.prefix)
    }

    /// The key of this name, which has no prefix.
    pub(crate) fn moved(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// What [`Keys::moved`] was given; also that of a signed request. Nothing for keys with another prefix.
    pub(crate) fn name_of_moved(&self, key: &str) -> Option<String> {
        let name = key.strip_prefix(&self.prefix)?;
        // No feed's name has a colon in it.
        let request = name.strip_prefix("{slot:").and_then(|rest| rest.split_once("}:request:"));
        Some(request.map_or_else(|| name.to_owned(), |(_, request)| format!("{{request:{request}}}:target")))
    }

    /// What keys begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A channel that this process may publish on, without listeners.
    pub(crate) fn hello(&self) -> String {
        format!("{}{{probe}}:hello", self.prefix)
    }
}

/// Whose a key of Tipcast's is, whatever its prefix. A feed may have the name of an index: what follows it decides.
pub fn owner(key: &[u8]) -> Owner<'_> {
    let tagged = || {
        let begin = key.iter().position(|byte| *byte == b'{')? + 1;
        let end = begin + key.get(begin..)?.iter().position(|byte| *byte == b'}')?;
        Some((key.get(begin..end)?, key.get(end + 2..)?))
    };
    let Some((tag, what)) = tagged() else { return Owner::Shared(b"") };
    match (tag, what) {
        (_, b"watching" | b"overlays") => Owner::Fleeting,
        (_, what) if what.starts_with(b"attempts:") => Owner::Fleeting,
        (b"hooks", what) if what.starts_with(b"attempts_of_all:") => Owner::Fleeting,
        (b"presence", node) if node.starts_with(b"node:") => Owner::Fleeting,
        (b"nodes", b"names") => Owner::Fleeting,
        (b"nodes", node) if node.starts_with(b"state:") || node.starts_with(b"series:") => Owner::Fleeting,
        (b"blocks", b"all" | b"walks")
        | (b"hooks", b"all" | b"version" | b"feeds" | b"letters" | b"signing_key")
        | (b"reports", b"groups")
        | (b"feeds", b"names")
        | (b"viewers", b"revoked" | b"revoked_order" | b"revoked_ends" | b"revoked_head") => {
            Owner::Shared(tag)
        }
        // No feed's name has a colon in it.
        (tag, _) if tag.contains(&b':') => Owner::Shared(tag),
        _ => Owner::Feed(tag),
    }
}

/// Whether a list that may have lost items is all of what its feed says: of the ledger readers count entries by number, so one
/// that is not complete is of no use. What is left out goes on as a ledger that was lost does, behind the last number.
pub fn list_fits(key: &[u8], items: usize, look_up: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> bool {
    let Some(feed) = key.strip_suffix(b":ledger") else { return true };
    let Some(reports) = look_up(&[feed, b":reports"].concat()) else { return false };
    let reports = String::from_utf8_lossy(&reports);
    // "LIMIT HOOKS IDLE READERS START BASE LENGTH"; the length holds while somebody reads.
    let mut words = reports.split(' ').skip(3);
    let (readers, length) = (words.next(), words.nth(2));
    readers == Some("0") || length == Some(&*items.to_string())
}

/// The part, of `parts`, that a name belongs to (FNV-1a).
fn hashed(feed: &FeedId, parts: usize) -> usize {
    let hash = feed.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash % parts.max(1) as u64) as usize
}

/// A pattern that matches this text and nothing else.
pub fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::super::slots::slot_of_key;
    use super::*;

    #[test]
    fn every_key_of_a_feed_has_its_hash_tag() {
        let keys = Keys::new("tc:", Division::ByName(1)).unwrap();
        let feed: FeedId = "room1".parse().unwrap();
        assert_eq!(keys.feed(&feed)[0], "tc:{room1}:list");
        assert_eq!(keys.live(&feed), "tc:{room1}:live:0");
        assert_eq!(keys.clone().in_database(3).live(&feed), "tc:{room1}:live:3");
        assert_eq!(keys.due(&feed), ["tc:{room1}:due", "tc:{room1}:later"]);
        assert!(Keys::new("a{b}", Division::ByShard).is_err());
    }

    #[test]
    fn on_one_server_feeds_spread_over_the_parts_by_name() {
        let keys = Keys::new("tc:", Division::ByName(4)).unwrap();
        assert_eq!(keys.index(SharedIndex::Due, Part::Named(3))[0], "tc:{due:3}:feeds");
        assert_eq!(keys.index(SharedIndex::Jobs, Part::Named(0))[1], "tc:{rep:0}:marks");
        assert_eq!(keys.hook_feeds(Part::Named(0)), "tc:{hooks}:feeds");
        assert_eq!(keys.groups(Part::Named(0)), "tc:{reports}:groups");
        let part =
            |n: usize| keys.named_part(SharedIndex::Due, &format!("room{n}").parse().unwrap()).unwrap();
        assert_eq!((0..64).map(part).collect::<std::collections::HashSet<_>>().len(), 4);
        assert_eq!(keys.named_part(SharedIndex::Jobs, &"room".parse().unwrap()), Some(Part::Named(0)));
    }

    #[test]
    fn a_signed_request_is_recorded_once_or_in_slots_that_are_far_apart() {
        let single = Keys::new("tc:", Division::ByName(4)).unwrap();
        assert_eq!(single.request("ab12"), ["tc:{request:ab12}:target"]);
        let cluster = Keys::new("tc:", Division::ByShard).unwrap();
        for n in 0..100 {
            let slots: Vec<_> =
                cluster.request(&format!("r{n}")).iter().map(|key| slot_of_key(key)).collect();
            // Further than the range of a shard, of three or more, is wide.
            assert!(slots.len() == 2 && slots[0].abs_diff(slots[1]) > SLOTS / 3, "{slots:?}");
        }
    }

    #[test]
    fn everything_in_a_part_of_a_slot_is_in_that_slot() {
        let keys = Keys::new("tc:", Division::ByShard).unwrap();
        for slot in [0, 1, 8_192, 16_383] {
            let part = Part::Slot(slot);
            let named = keys.whole_part(part).into_iter().chain([keys.wake(SharedIndex::Due, part)]);
            named.for_each(|key| assert_eq!(slot_of_key(&key), slot, "{key}"));
            assert_eq!(part.to_string().parse(), Ok(part));
        }
        let distinct: std::collections::HashSet<_> = keys.whole_part(Part::Slot(7)).into();
        assert_eq!(distinct.len(), 8);
    }
}
