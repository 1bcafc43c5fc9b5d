//! Half a surrogate pair, which JSON may hold and Unicode text may not.

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
