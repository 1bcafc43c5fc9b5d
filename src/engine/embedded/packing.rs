//! The library `cmsgpack` that Redis gives to scripts, as far as the scripts in `lua/` use it: numbers, texts, booleans, nil, arrays
//! and maps, byte for byte as Redis writes them.

use mlua::{Lua, LuaString, MultiValue, Table, Value};

/// Tables in tables at most.
const MAX_DEPTH: usize = 16;

/// Puts the library into the globals.
pub(super) fn add_library(lua: &Lua) -> mlua::Result<()> {
    let library = lua.create_table()?;
    library.raw_set("pack", lua.create_function(pack_messages)?)?;
    library.raw_set("unpack", lua.create_function(unpack_messages)?)?;
    lua.globals().raw_set("cmsgpack", library)
}

fn error<T>(words: impl Into<String>) -> mlua::Result<T> {
    Err(mlua::Error::runtime(words.into()))
}

fn pack_messages(lua: &Lua, values: MultiValue) -> mlua::Result<LuaString> {
    if values.is_empty() {
        return error("bad argument #0 to 'pack' (MessagePack pack needs input.)");
    }
    let mut out = Vec::with_capacity(128);
    for value in &values {
        push_message(&mut out, value, 0)?;
    }
    lua.create_string(out)
}

fn push_message(out: &mut Vec<u8>, value: &Value, depth: usize) -> mlua::Result<()> {
    match value {
        Value::Boolean(is) => out.push(if *is { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => push_integer(out, *number as f64),
        Value::Number(number) => push_integer(out, *number),
        Value::String(text) => push_text(out, &text.as_bytes()),
        // Deeper tables are nil, as Redis has it.
        Value::Table(table) if depth < MAX_DEPTH => push_table(out, table, depth)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn push_table(out: &mut Vec<u8>, table: &Table, depth: usize) -> mlua::Result<()> {
    let entries: Vec<(Value, Value)> = table.pairs().collect::<mlua::Result<_>>()?;
    // The length of a table with holes may be as many as it has entries, so each key is looked at.
    let is_place = |name: &Value| match name {
        Value::Integer(at) => (1..=entries.len() as i64).contains(at),
        Value::Number(at) => at.fract() == 0.0 && (1.0..=entries.len() as f64).contains(at),
        _ => false,
    };
    if entries.iter().all(|(name, _)| is_place(name)) {
        push_size(out, entries.len(), (0x90, 15), 0xdc);
        for at in 1..=entries.len() {
            push_message(out, &table.raw_get(at)?, depth + 1)?;
        }
        return Ok(());
    }
    push_size(out, entries.len(), (0x80, 15), 0xde);
    for (name, value) in &entries {
        push_message(out, name, depth + 1)?;
        push_message(out, value, depth + 1)?;
    }
    Ok(())
}

/// A size in one byte with the kind, or in two or four bytes behind it.
fn push_size(out: &mut Vec<u8>, size: usize, (fixed, most): (u8, usize), wide: u8) {
    if size <= most {
        out.push(fixed | size as u8);
    } else if let Ok(size) = u16::try_from(size) {
        out.push(wide);
        out.extend(size.to_be_bytes());
    } else {
        out.push(wide + 1);
        out.extend((size as u32).to_be_bytes());
    }
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        32..=255 => out.extend([0xd9, text.len() as u8]),
        size => push_size(out, size, (0xa0, 31), 0xda),
    }
    out.extend_from_slice(text);
}

/// A number without a fraction in as few bytes as it needs, else a float, of four bytes where that says the same.
fn push_integer(out: &mut Vec<u8>, number: f64) {
    let whole = number as i64;
    if whole as f64 != number {
        if f64::from(number as f32) == number {
            out.push(0xca);
            out.extend((number as f32).to_be_bytes());
        } else {
            out.push(0xcb);
            out.extend(number.to_be_bytes());
        }
        return;
    }
    match whole {
        0..=0x7f => out.push(whole as u8),
        0x80..=0xff => out.extend([0xcc, whole as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend((whole as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend((whole as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend((whole as u64).to_be_bytes());
        }
        -32..=-1 => out.push(whole as u8),
        -128..=-33 => out.extend([0xd0, whole as u8]),
        -0x8000..=-129 => {
            out.push(0xd1);
            out.extend((whole as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend((whole as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend(whole.to_be_bytes());
        }
    }
}

fn unpack_messages(lua: &Lua, text: LuaString) -> mlua::Result<MultiValue> {
    let text = text.as_bytes();
    let (mut rest, mut values) = (&text[..], Vec::new());
    while !rest.is_empty() {
        values.push(read_message(lua, &mut rest, 0)?);
    }
    Ok(values.into_iter().collect())
}

fn take<'a>(rest: &mut &'a [u8], size: usize) -> mlua::Result<&'a [u8]> {
    match rest.split_at_checked(size) {
        Some((taken, behind)) => {
            *rest = behind;
            Ok(taken)
        }
        None => error("Missing bytes in input."),
    }
}

fn read_size(rest: &mut &[u8], bytes: usize) -> mlua::Result<u64> {
    Ok(take(rest, bytes)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn read_message(lua: &Lua, rest: &mut &[u8], depth: usize) -> mlua::Result<Value> {
    if depth > MAX_DEPTH {
        return error("Too many levels in input.");
    }
    let kind = take(rest, 1)?[0];
    Ok(match kind {
        0x00..=0x7f => Value::Number(f64::from(kind)),
        0xe0..=0xff => Value::Number(f64::from(kind as i8)),
        0xc0 => Value::Nil,
        0xc2 => Value::Boolean(false),
        0xc3 => Value::Boolean(true),
        0xca => Value::Number(f64::from(f32::from_bits(read_size(rest, 4)? as u32))),
        0xcb => Value::Number(f64::from_bits(read_size(rest, 8)?)),
        0xcc..=0xcf => Value::Number(read_size(rest, 1 << (kind - 0xcc))? as f64),
        0xd0 => Value::Number(f64::from(read_size(rest, 1)? as i8)),
        0xd1 => Value::Number(f64::from(read_size(rest, 2)? as i16)),
        0xd2 => Value::Number(f64::from(read_size(rest, 4)? as i32)),
        0xd3 => Value::Number(read_size(rest, 8)? as i64 as f64),
        0xa0..=0xbf => Value::String(lua.create_string(take(rest, usize::from(kind & 0x1f))?)?),
        0xd9..=0xdb => {
            let size = read_size(rest, 1 << (kind - 0xd9))? as usize;
            Value::String(lua.create_string(take(rest, size)?)?)
        }
        0x90..=0x9f => read_array(lua, rest, u64::from(kind & 0x0f), depth)?,
        0xdc | 0xdd => {
            let size = read_size(rest, 2 << (kind - 0xdc))?;
            read_array(lua, rest, size, depth)?
        }
        0x80..=0x8f => read_map(lua, rest, u64::from(kind & 0x0f), depth)?,
        0xde | 0xdf => {
            let size = read_size(rest, 2 << (kind - 0xde))?;
            read_map(lua, rest, size, depth)?
        }
        _ => return error("Bad data format in input."),
    })
}

/// A size that is larger than what is there ends with the bytes, so that it costs nothing.
fn read_array(lua: &Lua, rest: &mut &[u8], size: u64, depth: usize) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    for at in 1..=size {
        table.raw_set(at, read_message(lua, rest, depth + 1)?)?;
    }
    Ok(Value::Table(table))
}

fn read_map(lua: &Lua, rest: &mut &[u8], size: u64, depth: usize) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    for _ in 0..size {
        let name = read_message(lua, rest, depth + 1)?;
        table.raw_set(name, read_message(lua, rest, depth + 1)?)?;
    }
    Ok(Value::Table(table))
}
