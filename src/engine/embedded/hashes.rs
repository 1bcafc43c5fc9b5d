//! Commands about hashes.

use std::sync::Arc;

use super::changes::Undo;
use super::command::{Answer, CommandSession, cursor_of, fits, scan_options};
use super::effect::{Effect, Name};
use super::fields::Fields;
use super::numbers::integer;
use super::reply::{NO_INTEGER, Reply};
use super::stored::Collection;

impl CommandSession<'_> {
    pub(super) fn hget(&mut self, words: &[&[u8]]) -> Answer {
        let value = self.hash(words[0])?.and_then(|fields| fields.get(words[1]));
        Ok(Reply::optional(value.map(|value| value.to_vec())))
    }

    pub(super) fn hmget(&mut self, words: &[&[u8]]) -> Answer {
        let fields = self.hash(words[0])?;
        let one = |field: &&[u8]| {
            Reply::optional(fields.and_then(|fields| fields.get(field)).map(|value| value.to_vec()))
        };
        Ok(Reply::Array(words[1..].iter().map(one).collect()))
    }

    /// Sets a field, or takes it out. True when it was there. The key's type has been checked.
    fn set_field(&mut self, key: &[u8], field: &[u8], value: Option<Arc<[u8]>>) -> bool {
        let made = || Collection::Hash(Fields::default());
        let held = self.space.collection_for(key, made, self.changes);
        let (key, Collection::Hash(fields)) = (held.name.clone(), &mut held.value) else { return false };
        let field: Name = field.into();
        let before = match &value {
            Some(value) => fields.insert(&field, value.clone()),
            None => fields.remove(&field),
        };
        let was_there = before.is_some();
        if was_there || value.is_some() {
            self.changes.undo.push(Undo::Field { key: key.clone(), field: field.clone(), before });
            self.changes.effects.push(Effect::Field { key, field, value });
        }
        was_there
    }

    pub(super) fn hset(&mut self, words: &[&[u8]]) -> Answer {
        if words.len().is_multiple_of(2) {
            return Err("ERR wrong number of arguments for 'hset' command");
        }
        self.hash(words[0])?;
        self.space.forget_expired(words[0], self.now, self.changes);
        let mut new = 0;
        for pair in words[1..].chunks_exact(2) {
            new += i64::from(!self.set_field(words[0], pair[0], Some(pair[1].into())));
        }
        Ok(Reply::Int(new))
    }

    pub(super) fn hdel(&mut self, words: &[&[u8]]) -> Answer {
        if self.hash(words[0])?.is_none() {
            return Ok(Reply::Int(0));
        }
        let mut gone = 0;
        for field in &words[1..] {
            gone += i64::from(self.set_field(words[0], field, None));
        }
        self.space.drop_empty(words[0], self.changes);
        Ok(Reply::Int(gone))
    }

    pub(super) fn hlen(&mut self, words: &[&[u8]]) -> Answer {
        Ok(Reply::Int(self.hash(words[0])?.map_or(0, |fields| fields.len() as i64)))
    }

    pub(super) fn hexists(&mut self, words: &[&[u8]]) -> Answer {
        Ok(Reply::Int(i64::from(self.hash(words[0])?.is_some_and(|fields| fields.get(words[1]).is_some()))))
    }

    pub(super) fn hkeys(&mut self, words: &[&[u8]]) -> Answer {
        let fields = self.hash(words[0])?.into_iter().flat_map(|fields| fields.iter());
        Ok(Reply::texts(fields.map(|(field, _)| field.to_vec())))
    }

    pub(super) fn hvals(&mut self, words: &[&[u8]]) -> Answer {
        let fields = self.hash(words[0])?.into_iter().flat_map(|fields| fields.iter());
        Ok(Reply::texts(fields.map(|(_, value)| value.to_vec())))
    }

    pub(super) fn hgetall(&mut self, words: &[&[u8]]) -> Answer {
        let fields = self.hash(words[0])?.into_iter().flat_map(|fields| fields.iter());
        Ok(Reply::texts(fields.flat_map(|(field, value)| [field.to_vec(), value.to_vec()])))
    }

    pub(super) fn hincrby(&mut self, words: &[&[u8]]) -> Answer {
        let by = integer(words[2]).ok_or(NO_INTEGER)?;
        let before = match self.hash(words[0])?.and_then(|fields| fields.get(words[1])) {
            Some(value) => integer(value).ok_or("ERR hash value is not an integer")?,
            None => 0,
        };
        let after = before.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
        self.space.forget_expired(words[0], self.now, self.changes);
        self.set_field(words[0], words[1], Some(after.to_string().into_bytes().into()));
        Ok(Reply::Int(after))
    }

    pub(super) fn hscan(&mut self, words: &[&[u8]]) -> Answer {
        let (cursor, options) = (cursor_of(words[1])?, scan_options(&words[2..])?);
        let (next, found) = match self.hash(words[0])? {
            Some(fields) => fields.scan(cursor, options.count),
            None => (0, Vec::new()),
        };
        let found =
            found.into_iter().filter(|(field, _)| options.pattern.is_none_or(|pattern| fits(pattern, field)));
        let found = Reply::texts(found.flat_map(|(field, value)| [field.to_vec(), value.to_vec()]));
        Ok(Reply::Array(vec![Reply::Bulk(next.to_string().into_bytes()), found]))
    }
}
