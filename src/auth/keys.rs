//! Keys: who holds one may do what it is for, with the feeds it is for, until it expires.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::hash::{KeyHash, is_hashed, read_entry};
use super::rights::{Right, Rights, Scope};
use crate::domain::Millis;
use crate::domain::hook_spec::secret_key;

/// One key, as far as the server knows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// For people and the audit log; of `producer_keys` and `admin_keys` the list and the place in it.
    pub name: Box<str>,
    proof: Proof,
    /// The feeds it is for.
    pub feeds: Scope,
    /// What it may.
    pub may: Rights,
    /// From when on it is of no use.
    pub expires_at: Option<Millis>,
    last_used: LastUsed,
}

/// When a key was used last in this process, to the second; 0 if it was not. It makes no other key of it.
#[derive(Default)]
struct LastUsed(AtomicI64);

/// Uses within this time, in milliseconds, are one: threads that take requests of one key would wait for each other.
const USE_STEP_MS: i64 = 1_000;

impl LastUsed {
    fn note(&self, now: Millis) {
        if now.0 - self.0.load(Ordering::Relaxed) >= USE_STEP_MS {
            self.0.store(now.0, Ordering::Relaxed);
        }
    }

    fn at(&self) -> Option<Millis> {
        Some(self.0.load(Ordering::Relaxed)).filter(|at| *at > 0).map(Millis)
    }
}

impl Clone for LastUsed {
    fn clone(&self) -> Self {
        LastUsed(AtomicI64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl PartialEq for LastUsed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for LastUsed {}

/// How its holder shows to have it.
#[derive(Clone, PartialEq, Eq)]
enum Proof {
    /// By sending it.
    Sent(KeyHash),
    /// By signing with it.
    Signs(Vec<u8>),
}

/// What its holder lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// This right.
    Right(Right),
    /// This feed, or with `*` all feeds.
    Feed(Box<str>),
    /// The request is signed, and does something else than posting gifts.
    Signed,
}

/// What `[[auth.keys]]` says of one key.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeySpec<'a> {
    /// See [`Key::name`].
    pub name: &'a str,
    /// `sha256:` and the hash, of a key that is sent.
    pub hash: Option<&'a str>,
    /// `whsec_` and base64, of one that signs.
    pub secret: Option<&'a str>,
    /// None: all.
    pub feeds: Option<&'a [String]>,
    /// Words.
    pub may: &'a [String],
    /// RFC 3339.
    pub expires_at: Option<&'a str>,
    /// Whether it signs.
    pub signed: bool,
}

impl Key {
    /// Reads one; the error says what is wrong, and never shows hash or secret.
    pub fn parse(spec: KeySpec<'_>) -> Result<Key, String> {
        let named = (1..=64).contains(&spec.name.len());
        if !named || !spec.name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b)) {
            return Err("name must be 1 to 64 of A-Z a-z 0-9 _ . -".into());
        }
        let proof = match (spec.signed, spec.hash, spec.secret) {
            (false, Some(hash), None) if is_hashed(hash) => {
                Proof::Sent(read_entry(hash).map_err(|why| format!("hash {why}"))?)
            }
            (false, Some(_), None) => {
                return Err("hash must begin with \"sha256:\"; `tipcast key new` prints one".into());
            }
            (false, ..) => {
                return Err("needs hash and no secret; signed = true needs secret and no hash".into());
            }
            (true, None, Some(secret)) => Proof::Signs(
                secret_key(secret).ok_or("secret must be whsec_ and base64 of 24 to 64 random bytes")?,
            ),
            (true, ..) => return Err("is signed, so it needs secret and no hash".into()),
        };
        let feeds = match spec.feeds {
            Some(feeds) => {
                Scope::parse(feeds.iter().map(String::as_str)).map_err(|why| format!("feeds: {why}"))?
            }
            None => Scope::everything(),
        };
        let may: Vec<Right> = spec
            .may
            .iter()
            .map(|word| word.parse())
            .collect::<Result<_, _>>()
            .map_err(|why| format!("may: {why}"))?;
        if may.is_empty() || spec.feeds.is_some_and(<[String]>::is_empty) {
            return Err("opens nothing: may and feeds must each name something".into());
        }
        if spec.signed && may != [Right::Gifts] {
            return Err("is signed, so it may only have may = [\"gifts\"]".into());
        }
        if may.contains(&Right::Admin) && !feeds.is_everything() {
            return Err("may everything (admin), so its feeds must be [\"*\"]".into());
        }
        let read =
            |text: &str| Millis::parse(text).ok_or("expires_at must be a time such as 2027-01-01T00:00:00Z");
        let expires_at = spec.expires_at.map(read).transpose()?;
        let last_used = LastUsed::default();
        Ok(Key { name: spec.name.into(), proof, feeds, may: Rights::of(may), expires_at, last_used })
    }

    /// Whether it has this right for this feed; `*` is what concerns all feeds, and none is no feed at all.
    pub fn allows(&self, right: Option<Right>, feed: Option<&str>) -> Result<(), Denied> {
        if let Some(right) = right
            && !self.may.has(right)
        {
            return Err(Denied::Right(right));
        }
        match feed {
            Some(feed) if !self.feeds.covers(feed) => Err(Denied::Feed(feed.into())),
            _ => Ok(()),
        }
    }

    /// Whether it is of use at `now`.
    pub fn is_good(&self, now: Millis) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }

    /// Notes that it was used.
    pub fn note_use(&self, now: Millis) {
        self.last_used.note(now);
    }

    /// When it was used last in this process.
    pub fn last_used_at(&self) -> Option<Millis> {
        self.last_used.at()
    }

    /// What it is counted as: the same for as long as it is the same key.
    pub fn id(&self) -> KeyHash {
        match &self.proof {
            Proof::Sent(hash) => *hash,
            Proof::Signs(_) => KeyHash::of(&format!("signed {}", self.name)),
        }
    }

    /// What it signs with, if it does.
    pub fn secret(&self) -> Option<&[u8]> {
        match &self.proof {
            Proof::Signs(secret) => Some(secret),
            Proof::Sent(_) => None,
        }
    }
}

/// All keys. When there are none, nobody is asked for one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys(Vec<Arc<Key>>);

impl Keys {
    /// Adds entries of `[auth] producer_keys` or `admin_keys`, which is `list`. The error says which entry and
    /// what would be right, and never what is there.
    pub fn add_list<'a>(
        &mut self,
        list: &str,
        may: Rights,
        entries: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), String> {
        for (n, entry) in (1..).zip(entries) {
            let hash = read_entry(entry).map_err(|why| format!("entry {n} {why}"))?;
            let name = format!("{list}[{n}]").into();
            let feeds = Scope::everything();
            let last_used = LastUsed::default();
            self.add(Key { name, proof: Proof::Sent(hash), feeds, may, expires_at: None, last_used })
                .map_err(|why| format!("entry {n} {why}"))?;
        }
        Ok(())
    }

    /// Adds one. The error says why it does not fit with the others.
    pub fn add(&mut self, key: Key) -> Result<(), String> {
        if self.0.iter().any(|known| known.name == key.name) {
            return Err("has the name of one before it; each name stands for one key".into());
        }
        if self.0.iter().any(|known| known.proof == key.proof) {
            return Err("is the same key as one before it; remove it".into());
        }
        self.0.push(Arc::new(key));
        Ok(())
    }

    /// True when nobody is asked for a key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key that was sent, if it is known and has not expired. Takes the same time whichever it is, or none.
    pub fn sent(&self, key: &str, now: Millis) -> Option<Arc<Key>> {
        let hash = KeyHash::of(key);
        let mut found = None;
        for known in &self.0 {
            if let Proof::Sent(stored) = &known.proof
                && stored.matches(&hash)
            {
                found = Some(known);
            }
        }
        let found = found.filter(|key| key.is_good(now))?;
        found.note_use(now);
        Some(found.clone())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Key> {
        self.0.iter().map(|key| &**key)
    }

    /// Keys that go on under new rules were used when they were.
    pub fn keep_uses(&self, old: &Keys) {
        for key in &self.0 {
            let before = old.0.iter().find(|it| it.id() == key.id()).and_then(|it| it.last_used_at());
            before.into_iter().for_each(|at| key.note_use(at));
        }
    }

    /// The signing key of this name, if it has not expired.
    pub fn signing(&self, name: &str, now: Millis) -> Option<Arc<Key>> {
        let key = self.0.iter().find(|key| *key.name == *name && key.secret().is_some());
        key.filter(|key| key.is_good(now)).cloned()
    }

    /// What has become of a key that was let in before: the same key, perhaps with other rights.
    pub fn like(&self, old: &Key, now: Millis) -> Option<&Arc<Key>> {
        self.0.iter().find(|key| key.id() == old.id()).filter(|key| key.is_good(now))
    }

    /// Whether a key that was let in before may still come in: it is there, unchanged, and has not expired.
    pub fn still(&self, key: &Key, now: Millis) -> bool {
        key.is_good(now) && self.0.iter().any(|known| **known == *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::fresh_key;

    const NOW: Millis = Millis(1_800_000_000_000);
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn words(all: &[&str]) -> Vec<String> {
        all.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_key_is_found_by_what_its_holder_sends_until_it_expires() {
        let (one, two) = (fresh_key(), fresh_key());
        let (hash, may, feeds) =
            (KeyHash::of(&one).to_string(), words(&["gifts", "moderate"]), words(&["show-*"]));
        let spec = KeySpec {
            name: "game.one",
            hash: Some(&hash),
            feeds: Some(&feeds),
            may: &may,
            expires_at: Some("2027-01-15T08:00:00.001Z"),
            ..KeySpec::default()
        };
        let mut keys = Keys::default();
        keys.add(Key::parse(spec).unwrap()).unwrap();
        keys.add_list("producer_keys", Rights::PRODUCER, [two.as_str()]).unwrap();
        let found = keys.sent(&one, NOW).unwrap();
        assert!(*found.name == *"game.one" && found.may.has(Right::Read) && !found.may.has(Right::Policy));
        assert!(keys.still(&found, NOW) && !keys.still(&found, Millis(NOW.0 + 1)));
        assert!(keys.sent(&one, Millis(NOW.0 + 1)).is_none(), "at its end it is over");
        assert!(keys.sent(&hash, NOW).is_none(), "the hash opens nothing");
        assert_eq!(*keys.sent(&two, NOW).unwrap().name, *"producer_keys[1]");
        assert!(keys.sent("tck_", NOW).is_none() && keys.signing("game.one", NOW).is_none());
        assert!(!Keys::default().still(&found, NOW));
        assert!(keys.add(Key::parse(spec).unwrap()).unwrap_err().contains("name"));
        let again = keys.add(Key::parse(KeySpec { name: "other", ..spec }).unwrap());
        assert!(again.unwrap_err().contains("same key"));
    }

    #[test]
    fn invalid_sources_are_refused_and_secrets_not_shown() {
        let (hash, gifts) = (KeyHash::of("x").to_string(), words(&["gifts"]));
        let right = KeySpec { name: "a", hash: Some(&hash), may: &gifts, ..KeySpec::default() };
        assert!(Key::parse(right).is_ok());
        let signed = KeySpec { signed: true, hash: None, secret: Some(SECRET), ..right };
        assert!(Key::parse(signed).unwrap().secret().is_some());
        let (none, both) = (words(&[]), words(&["gifts", "read"]));
        let (admin, some, odd) = (words(&["admin"]), words(&["show-*"]), words(&["a*b"]));
        for (spec, message) in [
            (KeySpec { name: "", ..right }, "name"),
            (KeySpec { name: "a b", ..right }, "name"),
            (KeySpec { hash: None, ..right }, "hash"),
            (KeySpec { hash: Some("a-key-of-the-operators-own"), ..right }, "sha256:"),
            (KeySpec { secret: Some(SECRET), ..right }, "no secret"),
            (KeySpec { may: &none, ..right }, "may"),
            (KeySpec { feeds: Some(&none), ..right }, "feeds"),
            (KeySpec { feeds: Some(&odd), ..right }, "a*b"),
            (KeySpec { may: &admin, feeds: Some(&some), ..right }, "[\"*\"]"),
            (KeySpec { expires_at: Some("2027"), ..right }, "expires_at"),
            (KeySpec { may: &both, ..signed }, "gifts"),
            (KeySpec { secret: Some("whsec_aGk="), ..signed }, "whsec_"),
            (KeySpec { hash: Some(&hash), ..signed }, "no hash"),
        ] {
            let refused = Key::parse(spec).map(|_| ()).unwrap_err();
            assert!(refused.contains(message), "{message}: {refused}");
            assert!(!refused.contains("operators") && !refused.contains(&SECRET[6..]), "{refused}");
        }
    }
}
