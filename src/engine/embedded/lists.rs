//! Commands about lists.

use std::sync::Arc;

use super::changes::Undo;
use super::command::{Answer, CommandSession};
use super::effect::{Effect, Name};
use super::numbers::integer;
use super::reply::{NO_INTEGER, Reply};
use super::stored::{Collection, List};

/// A range, whose ends may be counted from the end. To be read before the key is looked at, as Redis does.
#[derive(Clone, Copy)]
pub(super) struct IndexRange(i64, i64);

pub(super) fn index_range(from: &[u8], to: &[u8]) -> Result<IndexRange, &'static str> {
    Ok(IndexRange(integer(from).ok_or(NO_INTEGER)?, integer(to).ok_or(NO_INTEGER)?))
}

/// The items of a range: from, and one more than to; equal when there are none.
pub(super) fn range_of(IndexRange(from, to): IndexRange, length: usize) -> (usize, usize) {
    let length = length as i64;
    let place = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let (from, to) = (place(from).max(0), place(to).min(length - 1));
    if from > to || from >= length { (0, 0) } else { (from as usize, to as usize + 1) }
}

impl CommandSession<'_> {
    /// The list of a key that is to be written to, and its name.
    fn list_for(&mut self, key: &[u8]) -> Option<(Name, &mut List)> {
        let made = || Collection::List(List::default());
        let held = self.space.collection_for(key, made, self.changes);
        match &mut held.value {
            Collection::List(list) => Some((held.name.clone(), list)),
            _ => None,
        }
    }

    pub(super) fn llen(&mut self, words: &[&[u8]]) -> Answer {
        Ok(Reply::Int(self.list(words[0])?.map_or(0, |list| list.items.len() as i64)))
    }

    pub(super) fn lindex(&mut self, words: &[&[u8]]) -> Answer {
        let Some(list) = self.list(words[0])? else { return Ok(Reply::Nil) };
        let at = integer(words[1]).ok_or(NO_INTEGER)?;
        let at = if at < 0 { at.saturating_add(list.items.len() as i64) } else { at };
        let item = usize::try_from(at).ok().and_then(|at| list.items.get(at));
        Ok(Reply::optional(item.map(|item| item.to_vec())))
    }

    pub(super) fn lrange(&mut self, words: &[&[u8]]) -> Answer {
        let range = index_range(words[1], words[2])?;
        let list = self.list(words[0])?;
        let (from, to) = range_of(range, list.map_or(0, |list| list.items.len()));
        let items = list.into_iter().flat_map(|list| list.items.range(from..to));
        Ok(Reply::texts(items.map(|item| item.to_vec())))
    }

    pub(super) fn ltrim(&mut self, words: &[&[u8]]) -> Answer {
        let range = index_range(words[1], words[2])?;
        let length = self.list(words[0])?.map_or(0, |list| list.items.len());
        let (from, to) = range_of(range, length);
        if length == 0 || (from, to) == (0, length) {
            return Ok(Reply::Status("OK"));
        }
        let Some((key, list)) = self.list_for(words[0]) else { return Ok(Reply::Status("OK")) };
        let back: Vec<Arc<[u8]>> = list.items.drain(to..).collect();
        let front: Vec<Arc<[u8]>> = list.items.drain(..from).collect();
        list.first += from as i64;
        let (first, end) = (list.first, list.first + list.items.len() as i64);
        self.changes.undo.push(Undo::Trimmed { key: key.clone(), front, back });
        self.changes.effects.push(Effect::Bounds { key, first, end });
        self.space.drop_empty(words[0], self.changes);
        Ok(Reply::Status("OK"))
    }

    pub(super) fn lset(&mut self, words: &[&[u8]]) -> Answer {
        let length = self.list(words[0])?.ok_or("ERR no such key")?.items.len();
        let at = integer(words[1]).ok_or(NO_INTEGER)?;
        let at = if at < 0 { at.saturating_add(length as i64) } else { at };
        let index = usize::try_from(at).ok().filter(|at| *at < length).ok_or("ERR index out of range")?;
        let value: Arc<[u8]> = words[2].into();
        let Some((key, list)) = self.list_for(words[0]) else { return Err("ERR no such key") };
        let before = std::mem::replace(&mut list.items[index], value.clone());
        let number = list.first + index as i64;
        self.changes.undo.push(Undo::Item { key: key.clone(), index, before });
        self.changes.effects.push(Effect::Item { key, number, value });
        Ok(Reply::Status("OK"))
    }

    pub(super) fn lpush(&mut self, words: &[&[u8]]) -> Answer {
        self.push(words, true)
    }

    pub(super) fn rpush(&mut self, words: &[&[u8]]) -> Answer {
        self.push(words, false)
    }

    fn push(&mut self, words: &[&[u8]], in_front: bool) -> Answer {
        self.list(words[0])?;
        self.space.forget_expired(words[0], self.now, self.changes);
        let items: Vec<Arc<[u8]>> = words[1..].iter().map(|item| Arc::from(*item)).collect();
        let Some((key, list)) = self.list_for(words[0]) else { return Ok(Reply::Int(0)) };
        let mut number = if in_front { list.first } else { list.first + list.items.len() as i64 };
        let mut effects = Vec::with_capacity(items.len());
        for value in items {
            if in_front {
                list.items.push_front(value.clone());
                number -= 1;
                list.first = number;
            } else {
                list.items.push_back(value.clone());
            }
            effects.push(Effect::Item { key: key.clone(), number, value });
            number += i64::from(!in_front);
        }
        let length = list.items.len() as i64;
        let pushed = words.len() - 1;
        let (front, back) = if in_front { (pushed, 0) } else { (0, pushed) };
        self.changes.undo.push(Undo::Pushed { key, front, back });
        self.changes.effects.extend(effects);
        Ok(Reply::Int(length))
    }
}
