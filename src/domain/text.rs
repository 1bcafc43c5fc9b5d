//! Display text: cleaned, never a reason to refuse a gift.

use unicode_normalization::{UnicodeNormalization, is_nfc};

/// Characters that change how their neighbours are shown or break lines: control characters,
/// bidirectional embeddings, overrides and isolates, line and paragraph separators, and the
/// deprecated and annotation format characters. Single direction marks, joiners and emoji tags stay:
/// honest names need them. (Unicode 16, UAX #9 and UTR #36.)
fn is_hazard(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{206F}' | '\u{2028}' | '\u{2029}'
            | '\u{FFF9}'..='\u{FFFB}')
}

/// Characters that leave nothing to see when a text has only them.
fn is_invisible(c: char) -> bool {
    c.is_whitespace()
        || matches!(c,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}'
            | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{E0000}'..='\u{E0FFF}')
}

/// `raw` without hazards, in NFC.
pub fn clean(raw: &str) -> String {
    if raw.is_ascii() {
        if !raw.bytes().any(|b| b.is_ascii_control()) {
            return raw.to_owned();
        }
        return raw.chars().filter(|c| !c.is_control()).collect();
    }
    let kept: String = raw.chars().filter(|c| !is_hazard(*c)).collect();
    if is_nfc(&kept) { kept } else { kept.nfc().collect() }
}

/// How many characters of `raw` are no hazards.
pub fn len_without_hazards(raw: &str) -> usize {
    raw.chars().filter(|c| !is_hazard(*c)).count()
}

/// True when there is nothing to see in `text`.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(is_invisible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_and_overrides_go_and_honest_text_stays() {
        assert_eq!(clean("a\u{0}b\u{202e}c\n\u{85}d\u{2067}"), "abcd");
        let family = "👩\u{200d}👩\u{200d}👧 مرحبا\u{200f} 你好";
        assert_eq!(clean(family), family);
        assert_eq!(clean("e\u{301}"), "é");
    }

    #[test]
    fn a_name_of_invisible_characters_is_blank() {
        assert!(is_blank("") && is_blank(" \u{200b}\u{3000}\u{2060}"));
        assert!(!is_blank("."));
    }
}
