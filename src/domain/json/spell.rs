//! JSON as it is written: numbers, strings, and texts without white space.

use super::scan::has_special;

/// `number` in decimal digits, appended to `out`. Formatting by the standard library is many times as dear, and every
/// gift is stored with two dozen numbers, of which most have one digit.
pub fn push_number(out: &mut String, number: i64) {
    match number {
        0..=9 => out.push(char::from(b'0' + number as u8)),
        _ => out.push_str(itoa::Buffer::new().format(number)),
    }
}

/// `text` as a JSON string, appended to `out`. Never leaves a raw control character, so the
/// result fits into line-based formats.
pub fn push_string(out: &mut String, text: &str) {
    if has_special(text.as_bytes()) {
        out.push_str(&serde_json::Value::from(text).to_string());
    } else {
        out.reserve(text.len() + 2);
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
}

/// A valid JSON text without the white space between its tokens.
pub fn minified(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let (mut inside, mut escaped) = (false, false);
    for c in raw.chars() {
        if inside {
            inside = escaped || c != '"';
            escaped = !escaped && c == '\\';
            out.push(c);
        } else if !matches!(c, ' ' | '\n' | '\r' | '\t') {
            inside = c == '"';
            out.push(c);
        }
    }
    out
}

/// How many objects and arrays of a JSON text stand within each other at most.
pub fn depth(text: &str) -> usize {
    let (mut now, mut most, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                now += 1;
                most = most.max(now);
            }
            b'}' | b']' if !quoted => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}
