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
/// result can stand in line-based formats.
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

/// What a JSON string says. Every escape of half a surrogate pair is U+FFFD: it is what is left when somebody's program cut a text in
/// the middle of an emoji, and no reason to refuse money. `None` if the text is no string.
pub fn read_string(raw: &str) -> Option<String> {
    serde_json::from_str(raw).ok().or_else(|| serde_json::from_str(&whole_surrogates(raw)).ok())
}

/// A JSON text in which every escape of half a surrogate pair is that of U+FFFD.
pub fn whole_surrogates(raw: &str) -> String {
    let unit = |text: &str| {
        let hex = text.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(hex, 16).ok()
    };
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let taken = match unit(escape) {
            Some(0xD800..=0xDBFF) => {
                let pair = escape.get(6..).and_then(unit).is_some_and(|low| (0xDC00..=0xDFFF).contains(&low));
                out.push_str(if pair { &escape[..12] } else { "\\ufffd" });
                if pair { 12 } else { 6 }
            }
            Some(0xDC00..=0xDFFF) => {
                out.push_str("\\ufffd");
                6
            }
            // Also `\\`, of which the second half begins no escape.
            _ => {
                let taken = 1 + escape[1..].chars().next().map_or(0, char::len_utf8);
                out.push_str(&escape[..taken]);
                taken
            }
        };
        rest = &escape[taken..];
    }
    out + rest
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
