//! Runs the scripts of `lua/` in this process, on a [`Keyspace`], as Redis runs them: Lua 5.1, KEYS and ARGV, `redis.call`, and the
//! conversions between the two. A script that fails leaves nothing behind, not even its messages.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{BorrowedBytes, Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use super::changes::Changes;
use super::json::add_json;
use super::keyspace::Keyspace;
use super::numbers::write_float;
use super::packing::add_library;
use super::reply::Reply;
use crate::engine::protocol::scripts::Room;
use crate::engine::protocol::words::Words;

/// A script that did not end well: what Redis would answer. What it had done was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError(pub String);

/// A script. Those of one name have one text.
#[derive(Clone)]
pub struct ScriptText {
    /// What it is called.
    pub name: &'static str,
    /// All of it.
    pub text: Arc<str>,
    /// It says that it only reads: then it fails where it changes something.
    pub reads: bool,
    /// How much room it may take.
    pub room: Room,
}

/// What a script or a command answers, and what it changed.
pub struct ScriptRun {
    /// Its answer.
    pub reply: Reply,
    /// What it changed, and how to take that back.
    pub changes: Changes,
}

/// What a running script works on.
struct RunContext {
    space: RefCell<Keyspace>,
    changes: RefCell<Changes>,
    /// Milliseconds since 1970; one time for the whole script.
    now: Cell<i64>,
}

/// A Lua interpreter with the data that its scripts work on. Belongs to one thread.
pub struct ScriptHost {
    lua: Lua,
    shared: Rc<RunContext>,
    /// Compiled scripts by name.
    compiled: RefCell<HashMap<&'static str, Function>>,
}

/// The answer to an undefined name, as in Redis.
const UNDEFINED: &str = "Script attempted to access nonexistent global variable";

impl ScriptHost {
    /// A host of this data.
    ///
    /// # Errors
    /// When Lua cannot be set up, for want of memory.
    pub fn new(space: Keyspace) -> mlua::Result<ScriptHost> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let shared = Rc::new(RunContext {
            space: RefCell::new(space),
            changes: RefCell::default(),
            now: Cell::new(0),
        });
        let redis = lua.create_table()?;
        let of = shared.clone();
        redis.raw_set("call", lua.create_function(move |lua, words| of.call(lua, words, true))?)?;
        let of = shared.clone();
        redis.raw_set("pcall", lua.create_function(move |lua, words| of.call(lua, words, false))?)?;
        redis.raw_set(
            "error_reply",
            lua.create_function(|lua, words: mlua::LuaString| error_table(lua, &words.to_str()?))?,
        )?;
        // Nobody has fewer rights than another in this process.
        redis.raw_set("acl_check_cmd", lua.load("return function() return true end").eval::<Function>()?)?;
        let globals = lua.globals();
        globals.raw_set("redis", redis)?;
        add_library(&lua)?;
        add_json(&lua)?;
        // Nothing may be kept between scripts, nor read that is not there.
        let guard = lua.create_table()?;
        let missing = |_: &Lua, (_, name): (Value, Value)| -> mlua::Result<Value> {
            Err(mlua::Error::runtime(format!("{UNDEFINED} '{}'", name.to_string().unwrap_or_default())))
        };
        let defined = |_: &Lua, (_, name, _): (Value, Value, Value)| -> mlua::Result<()> {
            let name = name.to_string().unwrap_or_default();
            Err(mlua::Error::runtime(format!("Script attempted to create global variable '{name}'")))
        };
        guard.raw_set("__index", lua.create_function(missing)?)?;
        guard.raw_set("__newindex", lua.create_function(defined)?)?;
        globals.set_metatable(Some(guard))?;
        Ok(ScriptHost { lua, shared, compiled: RefCell::default() })
    }

    /// The data.
    pub fn with_space<T>(&self, work: impl FnOnce(&mut Keyspace) -> T) -> T {
        work(&mut self.shared.space.borrow_mut())
    }

    /// Runs a script with these KEYS and ARGV. `now` is in milliseconds since 1970.
    ///
    /// # Errors
    /// When the script cannot be read, or raises an error; then it has changed nothing.
    pub fn run(
        &self,
        script: &ScriptText,
        keys: &Words,
        args: &Words,
        now: i64,
    ) -> Result<ScriptRun, ScriptError> {
        self.shared.now.set(now);
        let ran = self.run_in_lua(script, keys, args);
        let mut changes = self.shared.changes.take();
        let failed = match ran {
            Ok(_) if script.reads && !changes.effects.is_empty() => {
                format!("ERR {} says that it only reads, and wrote", script.name)
            }
            Ok(reply) => return Ok(ScriptRun { reply, changes }),
            Err(error) => words_of(&error),
        };
        self.shared.space.borrow_mut().undo(&mut changes);
        Err(ScriptError(failed))
    }

    /// Runs one command. A refusal is an answer like any other, and has changed nothing.
    pub fn run_command(&self, words: &[&[u8]], now: i64) -> ScriptRun {
        let mut changes = Changes::default();
        let reply = self.shared.space.borrow_mut().execute(words, now, &mut changes);
        ScriptRun { reply, changes }
    }

    fn run_in_lua(&self, script: &ScriptText, keys: &Words, args: &Words) -> mlua::Result<Reply> {
        let function = self.compiled(script)?;
        for (name, words) in [("KEYS", keys), ("ARGV", args)] {
            let table = self.lua.create_table_with_capacity(words.len(), 0)?;
            for (at, word) in words.iter().enumerate() {
                table.raw_set(at + 1, self.lua.create_string(word)?)?;
            }
            self.lua.globals().raw_set(name, table)?;
        }
        reply_of(function.call::<Value>(())?)
    }

    fn compiled(&self, script: &ScriptText) -> mlua::Result<Function> {
        if let Some(function) = self.compiled.borrow().get(script.name) {
            return Ok(function.clone());
        }
        let function = self.lua.load(&*script.text).set_name("@user_script").into_function()?;
        self.compiled.borrow_mut().insert(script.name, function.clone());
        Ok(function)
    }
}

impl RunContext {
    /// `redis.call`, and `redis.pcall`, which answers an error as a table instead of raising it.
    fn call(&self, lua: &Lua, words: MultiValue, raises: bool) -> mlua::Result<Value> {
        let mut texts: Vec<Word> = Vec::with_capacity(words.len());
        for word in words {
            texts.push(match word {
                Value::String(text) => Word::Text(BorrowedBytes::from(&text)),
                // Not as Lua writes it, which would lose digits.
                Value::Integer(number) => Word::Number(number.to_string().into_bytes()),
                Value::Number(number) => Word::Number(write_float(number)),
                _ => {
                    return Err(mlua::Error::runtime(
                        "Lua redis lib command arguments must be strings or integers",
                    ));
                }
            });
        }
        let texts: Vec<&[u8]> = texts.iter().map(Word::bytes).collect();
        let reply = self.space.borrow_mut().execute(&texts, self.now.get(), &mut self.changes.borrow_mut());
        match reply {
            Reply::Error(words) if raises => Err(mlua::Error::runtime(words)),
            reply => value_of(lua, reply),
        }
    }
}

/// An argument of a command.
enum Word {
    Text(BorrowedBytes),
    Number(Vec<u8>),
}

impl Word {
    fn bytes(&self) -> &[u8] {
        match self {
            Word::Text(text) => text,
            Word::Number(text) => text,
        }
    }
}

fn error_table(lua: &Lua, words: &str) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    // A text without a code gets one.
    let has_code = words.split(' ').next().is_some_and(|word| word.chars().all(|c| c.is_ascii_uppercase()));
    let words = if has_code { words.trim_start_matches('-').to_owned() } else { format!("ERR {words}") };
    table.raw_set("err", words)?;
    Ok(table)
}

/// An answer of a command, as Lua sees it.
fn value_of(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Nil => Value::Boolean(false),
        Reply::Int(number) => Value::Number(number as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Status(words) => {
            let table = lua.create_table()?;
            table.raw_set("ok", words)?;
            Value::Table(table)
        }
        Reply::Error(words) => Value::Table(error_table(lua, &words)?),
        Reply::Array(all) => {
            let table = lua.create_table_with_capacity(all.len(), 0)?;
            for (at, reply) in all.into_iter().enumerate() {
                table.raw_set(at + 1, value_of(lua, reply)?)?;
            }
            Value::Table(table)
        }
    })
}

/// What a script returns, as its caller sees it: a number loses what is behind its point, and a table ends at its first nil.
fn reply_of(value: Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Integer(number) => Reply::Int(number),
        Value::Number(number) => Reply::Int(number as i64),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => {
            if let Value::String(words) = table.raw_get::<Value>("err")? {
                return Ok(Reply::Error(words.to_string_lossy()));
            }
            if let Value::String(_) = table.raw_get::<Value>("ok")? {
                return Ok(Reply::Status("OK"));
            }
            let mut all = Vec::new();
            loop {
                match table.raw_get::<Value>(all.len() + 1)? {
                    Value::Nil => break,
                    value => all.push(reply_of(value)?),
                }
            }
            Reply::Array(all)
        }
        _ => Reply::Nil,
    })
}

/// The first line of an error: the rest is where it came from.
fn words_of(error: &mlua::Error) -> String {
    let mut error = error;
    while let mlua::Error::CallbackError { cause, .. } = error {
        error = cause;
    }
    let words = error.to_string();
    let words = words.strip_prefix("runtime error: ").unwrap_or(&words);
    words.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> ScriptHost {
        ScriptHost::new(Keyspace::default()).unwrap()
    }

    fn text(script: &'static str) -> ScriptText {
        ScriptText {
            name: script,
            text: script.into(),
            reads: script.contains("reads only"),
            room: Room::Any,
        }
    }

    fn run(host: &ScriptHost, script: &'static str, args: &[&str]) -> Result<Reply, String> {
        let args = args.iter().map(|arg| arg.as_bytes()).collect();
        host.run(&text(script), &Words::from_iter([b"k".as_slice()]), &args, 1_800_000_000_123)
            .map(|run| run.reply)
            .map_err(|error| error.0)
    }

    #[test]
    fn values_are_converted_as_redis_does_it() {
        let host = host();
        for (script, wanted) in [
            ("return redis.call('GET', KEYS[1])", Reply::Nil),
            ("return redis.call('GET', KEYS[1]) == false", Reply::Int(1)),
            ("return 3.99", Reply::Int(3)),
            ("return {1, 'x', nil, 2}", Reply::Array(vec![Reply::Int(1), Reply::Bulk(b"x".to_vec())])),
            ("return redis.call('SET', KEYS[1], 1e15)", Reply::Status("OK")),
            ("return redis.call('GET', KEYS[1])", Reply::Bulk(b"1000000000000000".to_vec())),
            ("return redis.error_reply('DAMAGED a policy')", Reply::Error("DAMAGED a policy".into())),
            (
                "return redis.pcall('HGET', KEYS[1], 'f').err",
                Reply::Bulk(super::super::reply::WRONG_TYPE.as_bytes().to_vec()),
            ),
            ("return redis.call('TIME')", Reply::texts([b"1800000000".to_vec(), b"123000".to_vec()])),
            ("return ARGV[1] .. #ARGV", Reply::Bulk(b"a2".to_vec())),
        ] {
            assert_eq!(run(&host, script, &["a", "b"]), Ok(wanted), "{script}");
        }
    }

    #[test]
    fn a_script_that_fails_leaves_nothing_behind() {
        let host = host();
        run(&host, "return redis.call('SET', KEYS[1], 'before')", &[]).unwrap();
        let before = host.with_space(|space| space.dump());
        for (script, part) in [
            ("redis.call('SET', KEYS[1], 'x') redis.call('SPUBLISH', 'c', 'm') error('no more')", "no more"),
            (
                "redis.call('DEL', KEYS[1]) return redis.call('HGET', 'k', 'f', 'too many')",
                "wrong number of arguments",
            ),
            ("redis.call('SET', KEYS[1], 'x') return nobody", UNDEFINED),
            ("redis.call('SET', KEYS[1], 'x') kept = 1", "create global variable"),
            ("redis.call('RPUSH', 'l', 'x') redis.call('RPUSH', KEYS[1], 'x')", "WRONGTYPE"),
            ("this is no Lua", "user_script"),
            ("redis.call('SET', KEYS[1], 'x') return 'reads only'", "says that it only reads"),
        ] {
            let error = run(&host, script, &[]).unwrap_err();
            assert!(error.contains(part), "{script}: {error}");
            assert_eq!(host.with_space(|space| space.dump()), before, "{script}");
        }
        let quiet = host.run(&text("return 1"), &Words::default(), &Words::default(), 0).unwrap();
        assert!(quiet.changes.messages.is_empty() && quiet.changes.effects.is_empty());
    }
}
