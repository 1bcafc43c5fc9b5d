//! A call of a script, put together by the names that its header gives.

use redis::Cmd;

use super::Script;
use super::header::{Header, Use};
use crate::engine::protocol::words::Words;

/// How full memory may be for a script after which there is more data than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// However full it is.
    Any,
    /// 4 % above the bound: what is refused at the bound is most of what comes, and the rest goes on for a while.
    Reserve,
    /// Up to the bound.
    Bound,
}

/// KEYS and ARGV of one call. What is not there yet is missing; [`Call::command`] finds that out.
#[derive(Clone)]
pub struct Call {
    pub script: &'static Script,
    keys: Vec<Option<String>>,
    args: Vec<Option<String>>,
    item_keys: Vec<String>,
    item_args: Vec<String>,
    last_keys: Vec<String>,
    /// The argument that ends with the life of the server.
    life_at: Option<usize>,
    /// True for somebody who reads.
    reads: bool,
    /// True for a call that needs room, of a script that does not always.
    is_bounded: bool,
}

impl Call {
    /// Of this script, with nothing yet.
    pub fn of(script: &'static Script) -> Call {
        let header = script.header();
        Call {
            script,
            keys: vec![None; header.keys.len()],
            args: vec![None; header.args.len()],
            item_keys: Vec::new(),
            item_args: Vec::new(),
            last_keys: Vec::new(),
            life_at: None,
            reads: false,
            is_bounded: false,
        }
    }

    /// Somebody waits for what this reads, though it may write what time has brought. A store in this process answers when the
    /// commit has ended that the answer depends on, however long the disk takes.
    pub fn for_a_reader(&mut self) -> &mut Call {
        self.reads = true;
        self
    }

    /// True for a call that was made [`Call::for_a_reader`].
    pub fn reads(&self) -> bool {
        self.reads
    }

    /// Somebody wishes that something is stored that was not there, by a script that mostly ends or shows what is.
    pub fn bounded(&mut self) -> &mut Call {
        self.is_bounded = true;
        self
    }

    /// How much room it may take in a store in this process.
    pub fn room(&self) -> Room {
        match self.script.header().data {
            Some(Use::Grows) => Room::Bound,
            Some(Use::Writes) => Room::Reserve,
            _ if self.is_bounded => Room::Reserve,
            _ => Room::Any,
        }
    }

    /// The key of this name.
    pub fn key(&mut self, name: &str, key: impl Into<String>) -> &mut Call {
        if let Some(at) = self.place(&self.script.header().keys, name) {
            self.keys[at] = Some(key.into());
        }
        self
    }

    /// Keys by name.
    pub fn keys<const N: usize>(&mut self, keys: [(&str, String); N]) -> &mut Call {
        for (name, key) in keys {
            self.key(name, key);
        }
        self
    }

    /// The argument of this name.
    pub fn arg(&mut self, name: &str, value: impl ToString) -> &mut Call {
        if let Some(at) = self.place(&self.script.header().args, name) {
            self.args[at] = Some(value.to_string());
        }
        self
    }

    /// The argument of this name ends with the life of the server to which the call is sent
    /// ([`crate::engine::redis::dial::ServerId::life`]), which only its connection knows for certain.
    pub fn end_with_life(&mut self, name: &str) -> &mut Call {
        self.life_at = self.place(&self.script.header().args, name);
        self
    }

    /// One of the things that the script takes many of: its KEYS and its ARGV, in the header's order.
    pub fn item<'a, const K: usize>(
        &mut self,
        keys: [(&str, String); K],
        args: impl IntoIterator<Item = (&'a str, String)>,
    ) -> &mut Call {
        let Header { item_keys, item_args, .. } = self.script.header();
        debug_assert!(keys.iter().map(|(name, _)| name).eq(item_keys), "{}: {item_keys:?}", self.script.name);
        self.item_keys.extend(keys.into_iter().map(|(_, key)| key));
        let mut wanted = item_args.iter();
        for (name, arg) in args {
            debug_assert_eq!(wanted.next(), Some(&name), "{}: {item_args:?}", self.script.name);
            self.item_args.push(arg);
        }
        debug_assert_eq!(wanted.next(), None, "{}: {item_args:?}", self.script.name);
        self
    }

    /// Keys behind all others, whose number and order the arguments say.
    pub fn last_keys(&mut self, keys: Vec<String>) -> &mut Call {
        self.last_keys = keys;
        self
    }

    /// The key that decides in which slot the call is made.
    pub fn first_key(&self) -> &str {
        self.keys.first().and_then(Option::as_deref).unwrap_or_default()
    }

    /// As a server of this life gets it.
    pub fn command(&self, life: &str) -> Cmd {
        let (header, name) = (self.script.header(), self.script.name);
        let Header { keys, args, .. } = header;
        for (list, names) in [(&self.keys, keys), (&self.args, args)] {
            let missing = list.iter().zip(names).find(|(value, _)| value.is_none());
            debug_assert!(missing.is_none(), "{name} is called without {:?}", missing.map(|(_, name)| name));
        }
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(self.script.sha()).arg(self.keys.len() + self.item_keys.len() + self.last_keys.len());
        for key in &self.keys {
            cmd.arg(key.as_deref().unwrap_or_default());
        }
        cmd.arg(&self.item_keys).arg(&self.last_keys);
        for (at, arg) in self.args.iter().enumerate() {
            let arg = arg.as_deref().unwrap_or_default();
            match self.life_at == Some(at) {
                true => cmd.arg([arg, life].concat()),
                false => cmd.arg(arg),
            };
        }
        cmd.arg(&self.item_args);
        cmd
    }

    /// KEYS and ARGV as a store of this life gets them.
    pub fn words(&self, life: &str) -> (Words, Words) {
        let of = |fixed: &[Option<String>], items: &[String], last: &[String], life_at: Option<usize>| {
            let fixed_bytes: usize = fixed.iter().map(|word| word.as_ref().map_or(0, String::len)).sum();
            let more_bytes: usize = items.iter().chain(last).map(String::len).sum();
            let room = fixed_bytes + more_bytes + life.len();
            let mut words = Words::with_capacity(fixed.len() + items.len() + last.len(), room);
            for (at, word) in fixed.iter().enumerate() {
                let end = if life_at == Some(at) { life } else { "" };
                words.push(&[word.as_deref().unwrap_or_default().as_bytes(), end.as_bytes()]);
            }
            items.iter().chain(last).for_each(|word| words.push(&[word.as_bytes()]));
            words
        };
        let keys = of(&self.keys, &self.item_keys, &self.last_keys, None);
        (keys, of(&self.args, &self.item_args, &[], self.life_at))
    }

    fn place(&self, names: &[&str], name: &str) -> Option<usize> {
        let at = names.iter().position(|it| *it == name);
        debug_assert!(at.is_some(), "{} knows no {name:?}, but {names:?}", self.script.name);
        at
    }
}
