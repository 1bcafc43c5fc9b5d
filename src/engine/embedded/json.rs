//! The library `cjson` that Redis gives to scripts: the same values, and byte for byte the same texts.
//!
//! Numbers are written with 14 digits, as Redis writes them. So scripts write what may grow with `%d` instead, and encode
//! texts only.

use std::fmt;

use mlua::{Lua, LuaString, Table, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::numbers::write_digits;

/// How deep tables may be nested. Redis allows a thousand; nothing that is stored here has more than a few.
const MAX_DEPTH: usize = 100;

/// An array with more places than this times its elements is refused, unless it has this many places at most: Redis'
/// `encode_sparse_array`.
const SPARSE_ARRAY_LIMITS: (usize, usize) = (2, 10);

/// Puts the library into the globals.
pub(super) fn add_json(lua: &Lua) -> mlua::Result<()> {
    let library = lua.create_table()?;
    library.raw_set("decode", lua.create_function(decode)?)?;
    library.raw_set("encode", lua.create_function(encode)?)?;
    library.raw_set("null", Value::NULL)?;
    lua.globals().raw_set("cjson", library)
}

fn decode(lua: &Lua, text: LuaString) -> mlua::Result<Value> {
    let bytes = text.as_bytes();
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    let value = ToLua(lua).deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    value.map_err(|error| mlua::Error::runtime(format!("Expected value but found invalid token: {error}")))
}

/// Makes a Lua value of whatever comes.
struct ToLua<'a>(&'a Lua);

impl<'de> DeserializeSeed<'de> for ToLua<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ToLua<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        Ok(Value::Boolean(it))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::NULL)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.0.create_string(text).map(Value::String).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let table = self.0.create_table().map_err(A::Error::custom)?;
        let mut at = 1;
        while let Some(value) = seq.next_element_seed(ToLua(self.0))? {
            table.raw_set(at, value).map_err(A::Error::custom)?;
            at += 1;
        }
        Ok(Value::Table(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let table = self.0.create_table().map_err(A::Error::custom)?;
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(ToLua(self.0))?;
            table.raw_set(name, value).map_err(A::Error::custom)?;
        }
        Ok(Value::Table(table))
    }
}

fn encode(lua: &Lua, value: Value) -> mlua::Result<LuaString> {
    let mut out = Vec::with_capacity(64);
    push(&mut out, &value, 0)?;
    lua.create_string(out)
}

fn push(out: &mut Vec<u8>, value: &Value, depth: usize) -> mlua::Result<()> {
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        null if *null == Value::NULL => out.extend_from_slice(b"null"),
        Value::Boolean(it) => out.extend_from_slice(if *it { b"true" } else { b"false" }),
        Value::Integer(number) => push_number(out, *number as f64)?,
        Value::Number(number) => push_number(out, *number)?,
        Value::String(text) => push_text(out, &text.as_bytes()),
        Value::Table(table) if depth < MAX_DEPTH => match length_of(table)? {
            Some(length) => {
                out.push(b'[');
                for at in 1..=length {
                    if at > 1 {
                        out.push(b',');
                    }
                    push(out, &table.raw_get(at)?, depth + 1)?;
                }
                out.push(b']');
            }
            None => push_object(out, table, depth)?,
        },
        Value::Table(_) => return refuse("excessive nesting"),
        other => return refuse(&format!("type not supported: {}", other.type_name())),
    }
    Ok(())
}

fn push_object(out: &mut Vec<u8>, table: &Table, depth: usize) -> mlua::Result<()> {
    out.push(b'{');
    let mut is_first = true;
    for pair in table.pairs::<Value, Value>() {
        let (name, value) = pair?;
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        match name {
            Value::String(text) => push_text(out, &text.as_bytes()),
            Value::Integer(number) => push_name(out, number as f64)?,
            Value::Number(number) => push_name(out, number)?,
            _ => return refuse("table key must be a number or string"),
        }
        out.push(b':');
        push(out, &value, depth + 1)?;
    }
    out.push(b'}');
    Ok(())
}

/// How long an array is; `None` for what is an object, which an empty table is too.
fn length_of(table: &Table) -> mlua::Result<Option<usize>> {
    let (mut items, mut length) = (0_usize, 0_usize);
    for pair in table.pairs::<Value, Value>() {
        let at = match pair?.0 {
            Value::Integer(at) if at >= 1 => at as usize,
            Value::Number(at) if at >= 1.0 && at.fract() == 0.0 => at as usize,
            _ => return Ok(None),
        };
        (items, length) = (items + 1, length.max(at));
    }
    if length > SPARSE_ARRAY_LIMITS.1 && length > items * SPARSE_ARRAY_LIMITS.0 {
        return refuse("excessively sparse array");
    }
    Ok((items > 0).then_some(length))
}

fn push_name(out: &mut Vec<u8>, number: f64) -> mlua::Result<()> {
    out.push(b'"');
    push_number(out, number)?;
    out.push(b'"');
    Ok(())
}

fn push_number(out: &mut Vec<u8>, number: f64) -> mlua::Result<()> {
    if !number.is_finite() {
        return refuse("must not be NaN or Inf");
    }
    out.extend_from_slice(write_digits(number, 14).as_bytes());
    Ok(())
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            8 => out.extend_from_slice(b"\\b"),
            9 => out.extend_from_slice(b"\\t"),
            10 => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            13 => out.extend_from_slice(b"\\r"),
            0..32 | 127 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

fn refuse<T>(why: &str) -> mlua::Result<T> {
    Err(mlua::Error::runtime(format!("Cannot serialise: {why}")))
}
