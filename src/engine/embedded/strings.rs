//! Commands about strings and about keys of any kind.

use std::sync::Arc;

use super::command::{Answer, CommandSession, cursor_of, fits, scan_options};
use super::effect::Name;
use super::numbers::integer;
use super::reply::{NO_INTEGER, Reply, SYNTAX, WRONG_TYPE};

const BAD_EXPIRY: &str = "ERR invalid expire time in 'set' command";

impl CommandSession<'_> {
    fn bytes(&self, key: &[u8]) -> Result<Option<&Arc<[u8]>>, &'static str> {
        match self.space.string(key, self.now) {
            Some(held) => Ok(Some(&held.value)),
            None if self.space.collection(key, self.now).is_some() => Err(WRONG_TYPE),
            None => Ok(None),
        }
    }

    pub(super) fn get(&mut self, words: &[&[u8]]) -> Answer {
        Ok(Reply::optional(self.bytes(words[0])?.map(|value| value.to_vec())))
    }

    pub(super) fn mget(&mut self, words: &[&[u8]]) -> Answer {
        let one =
            |key: &&[u8]| Reply::optional(self.space.string(key, self.now).map(|held| held.value.to_vec()));
        Ok(Reply::Array(words.iter().map(one).collect()))
    }

    fn put(&mut self, key: &[u8], value: &[u8], until: Option<i64>) {
        self.space.forget_expired(key, self.now, self.changes);
        self.space.set_string(key, value.into(), until, self.changes);
    }

    pub(super) fn set(&mut self, words: &[&[u8]]) -> Answer {
        let (mut for_ms, mut get, mut keep) = (None, false, false);
        let mut options = words[2..].iter();
        while let Some(option) = options.next() {
            if option.eq_ignore_ascii_case(b"px") && for_ms.is_none() && !keep {
                for_ms = Some(options.next().ok_or(SYNTAX)?);
            } else if option.eq_ignore_ascii_case(b"keepttl") && for_ms.is_none() {
                keep = true;
            } else if option.eq_ignore_ascii_case(b"get") {
                get = true;
            } else {
                return Err(SYNTAX);
            }
        }
        let until = match for_ms {
            Some(ms) => Some(self.time_in(ms)?),
            None if keep => self.until(words[0]),
            None => None,
        };
        let before = if get {
            Reply::optional(self.bytes(words[0])?.map(|value| value.to_vec()))
        } else {
            Reply::Status("OK")
        };
        self.put(words[0], words[1], until);
        Ok(before)
    }

    fn until(&self, key: &[u8]) -> Option<i64> {
        let collection = || self.space.collection(key, self.now).and_then(|held| held.until);
        self.space.string(key, self.now).map_or_else(collection, |held| held.until)
    }

    /// The time this many milliseconds from now, which must be some.
    fn time_in(&self, ms: &[u8]) -> Result<i64, &'static str> {
        let ms = integer(ms).ok_or(NO_INTEGER)?;
        if ms <= 0 {
            return Err(BAD_EXPIRY);
        }
        self.now.checked_add(ms).ok_or(BAD_EXPIRY)
    }

    pub(super) fn del(&mut self, words: &[&[u8]]) -> Answer {
        let mut count = 0;
        for key in words {
            let is_there = self.space.exists(key, self.now);
            self.space.delete(key, self.changes);
            count += i64::from(is_there);
        }
        Ok(Reply::Int(count))
    }

    pub(super) fn exists(&mut self, words: &[&[u8]]) -> Answer {
        Ok(Reply::Int(words.iter().filter(|key| self.space.exists(key, self.now)).count() as i64))
    }

    pub(super) fn pexpire(&mut self, words: &[&[u8]]) -> Answer {
        let ms = integer(words[1]).ok_or(NO_INTEGER)?;
        let until = self.now.checked_add(ms).ok_or("ERR invalid expire time in 'pexpire' command")?;
        if !self.space.exists(words[0], self.now) {
            return Ok(Reply::Int(0));
        }
        if ms <= 0 {
            self.space.delete(words[0], self.changes);
        } else {
            self.space.expire(words[0], Some(until), self.changes);
        }
        Ok(Reply::Int(1))
    }

    pub(super) fn persist(&mut self, words: &[&[u8]]) -> Answer {
        if self.until(words[0]).is_none() {
            return Ok(Reply::Int(0));
        }
        self.space.expire(words[0], None, self.changes);
        Ok(Reply::Int(1))
    }

    pub(super) fn time(&mut self, _: &[&[u8]]) -> Answer {
        let (seconds, micros) = (self.now.div_euclid(1_000), self.now.rem_euclid(1_000) * 1_000);
        Ok(Reply::texts([seconds.to_string().into_bytes(), micros.to_string().into_bytes()]))
    }

    /// Who listens is not for this layer to know: the number of listeners is always 0.
    pub(super) fn spublish(&mut self, words: &[&[u8]]) -> Answer {
        self.changes.messages.push((words[0].to_vec(), words[1].to_vec()));
        Ok(Reply::Int(0))
    }

    /// Walks over collections only.
    pub(super) fn scan(&mut self, words: &[&[u8]]) -> Answer {
        let (cursor, options) = (cursor_of(words[0])?, scan_options(&words[1..])?);
        let (next, found) = self.space.scan(cursor, options.count);
        let fits = |key: &&Name| {
            options.pattern.is_none_or(|pattern| fits(pattern, key))
                && self.space.collection(key, self.now).is_some()
        };
        let found = Reply::texts(found.into_iter().filter(fits).map(|key| key.to_vec()));
        Ok(Reply::Array(vec![Reply::Bulk(next.to_string().into_bytes()), found]))
    }
}
