//! Display text: cleaned, never a reason to refuse a gift.

use unicode_normalization::{UnicodeNormalization, is_nfc};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthChar;

/// Characters that change how their neighbours are shown or break lines: control characters,
/// bidirectional embeddings, overrides and isolates, line and paragraph separators, and the
/// deprecated and annotation format characters. Single direction marks, joiners and emoji tags stay:
/// honest names need them. (Unicode 16, UAX #9 and UTR #36.)
pub fn is_hazard(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{206F}' | '\u{2028}' | '\u{2029}'
            | '\u{FFF9}'..='\u{FFFB}')
}

/// Characters that leave nothing to see when a text has only them: white space; what takes no room (Default_Ignorable_Code_Point, and marks
/// without a letter); and three that take room and are empty, for which Unicode has no property: a filler, the braille pattern without dots, and the null notehead.
fn is_invisible(c: char) -> bool {
    c.is_whitespace() || c.width().unwrap_or(0) == 0 || matches!(c, '\u{115F}' | '\u{2800}' | '\u{1D159}')
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

/// `clean` with at most `most` characters; a longer one ends in an ellipsis. What a person sees as one character stays whole, unless it is
/// itself longer than that.
pub fn cut(clean: &str, most: usize) -> String {
    if clean.chars().count() <= most {
        return clean.to_owned();
    }
    let mut kept = String::new();
    let mut left = most - 1;
    for seen in clean.graphemes(true) {
        let Some(rest) = left.checked_sub(seen.chars().count()) else { break };
        kept.push_str(seen);
        left = rest;
    }
    if kept.is_empty() {
        kept.extend(clean.chars().take(most - 1));
    }
    kept.trim_end().to_owned() + "…"
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
        for blank in [
            0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x180E, 0x200F, 0x2065, 0x2800, 0x3164, 0xFE0F,
            0xFEFF, 0xFFA0, 0x1D159, 0xE0001, 0xE0020, 0xE01EF, 0x0301,
        ] {
            let blank = char::from_u32(blank).unwrap();
            assert!(is_blank(&format!("{blank} {blank}")), "{:x}", u32::from(blank));
        }
        for seen in [".", "ㅏ", "ᄀ", "⠁", "🌹", "é", "ก", "\u{ab}"] {
            assert!(!is_blank(seen), "{seen}");
        }
    }

    #[test]
    fn a_cut_leaves_whole_what_is_seen_as_one() {
        let family = "👩\u{200d}👩\u{200d}👧";
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut(&format!("ab{family}cd"), 8), format!("ab{family}…"));
        assert_eq!(cut(&format!("ab{family}cd"), 7), "ab…");
        assert_eq!(cut("\u{1F1E9}\u{1F1EA}\u{1F1E9}\u{1F1EA}", 3), "\u{1F1E9}\u{1F1EA}…");
        assert_eq!(cut("ab cdef", 4), "ab…");
        let tower = format!("e{}", "\u{301}\u{302}".repeat(40));
        assert_eq!(cut(&tower, 10).chars().count(), 10);
    }
}
