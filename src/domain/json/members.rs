//! The members of a JSON object, or the elements of an array, in a text that was found to be JSON before: only where each begins and ends is
//! looked for, and nothing is judged a second time.

use memchr::memchr2;

/// So many bytes of a string are looked at by eights: most end before, and a search that looks at more at once costs more than that
/// to begin.
const SHORT: usize = 24;

/// Where the first quote or backslash stands.
fn find_mark(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    // The highest bit of each byte that is 0, and perhaps of some that stand behind such a one.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    let mut rest = bytes;
    while let Some((word, behind)) = rest.split_first_chunk::<8>() {
        if bytes.len() - rest.len() >= SHORT {
            break;
        }
        let word = u64::from_le_bytes(*word);
        let marks = zeros(word ^ (ONES * b'"' as u64)) | zeros(word ^ (ONES * b'\\' as u64));
        if marks != 0 {
            return Some(bytes.len() - rest.len() + marks.trailing_zeros() as usize / 8);
        }
        rest = behind;
    }
    memchr2(b'"', b'\\', rest).map(|found| bytes.len() - rest.len() + found)
}

/// The bytes that begin and end strings, objects and arrays.
const STRUCTURE: [bool; 256] = {
    let (mut all, bytes, mut n) = ([false; 256], *b"\"{}[]", 0);
    while n < bytes.len() {
        all[bytes[n] as usize] = true;
        n += 1;
    }
    all
};

/// One member.
pub(super) struct Member<'a> {
    /// The name as it stands there, with its quotes.
    pub name: &'a str,
    /// The same without them. Escapes are as they stand there.
    pub inside: &'a str,
    /// The value as it stands there.
    pub value: &'a str,
}

/// The members, in their order. Of a text that is no JSON object they end somewhere, and mean nothing.
pub(super) struct Members<'a>(Walk<'a>);

/// The elements of an array as they stand there, in their order. Of a text that is no JSON array likewise.
pub(super) struct Elements<'a>(Walk<'a>);

/// A place in a text.
struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Members<'a> {
    /// Of the object that `text` is.
    pub fn of(text: &'a str) -> Members<'a> {
        Members(Walk { text, at: 1 })
    }
}

impl<'a> Elements<'a> {
    /// Of the array that `text` is.
    pub fn of(text: &'a str) -> Elements<'a> {
        Elements(Walk { text, at: 1 })
    }
}

impl<'a> Walk<'a> {
    /// Moves to the next byte that is no white space, nor one of `skipped`, and tells it.
    fn skip(&mut self, skipped: u8) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at)? {
                b' ' | b'\t' | b'\n' | b'\r' => {}
                other if *other == skipped => {}
                other => return Some(*other),
            }
            self.at += 1;
        }
    }

    /// Moves behind the string that begins here.
    fn pass_string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            let rest = self.text.as_bytes().get(self.at..)?;
            let found = find_mark(rest)?;
            let ends = rest[found] == b'"';
            self.at += found + if ends { 1 } else { 2 };
            if ends {
                return Some(());
            }
        }
    }

    /// Moves behind the value that begins with `first` here, and tells it.
    fn pass_value(&mut self, first: u8) -> Option<&'a str> {
        let begun = self.at;
        match first {
            b'"' => self.pass_string()?,
            b'{' | b'[' => self.pass_nested()?,
            _ => {
                // What ends the object or the array ends a number or a word in it, too.
                let ends = |byte: &u8| matches!(byte, b'}' | b']' | b',' | b' ' | b'\t' | b'\n' | b'\r');
                self.at += self.text.as_bytes().get(begun..)?.iter().position(ends)?;
            }
        }
        self.text.get(begun..self.at)
    }

    /// Moves behind the object or array that begins here.
    fn pass_nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            let rest = self.text.as_bytes().get(self.at..)?;
            let found = rest.iter().position(|byte| STRUCTURE[usize::from(*byte)])?;
            self.at += found;
            match rest[found] {
                b'"' => {
                    self.pass_string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                _ => depth -= 1,
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let Members(walk) = self;
        if walk.skip(b',')? != b'"' {
            return None;
        }
        let begun = walk.at;
        walk.pass_string()?;
        let (name, inside) = (walk.text.get(begun..walk.at)?, walk.text.get(begun + 1..walk.at - 1)?);
        let first = walk.skip(b':')?;
        Some(Member { name, inside, value: walk.pass_value(first)? })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let Elements(walk) = self;
        match walk.skip(b',')? {
            b'}' | b']' => None,
            first => walk.pass_value(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
            "[\\[\\]{}\",:\\\\ ]*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-c\"\\\\é{}]{0,3}", inner, 0..6)
                    .prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_members_are_those_that_a_parser_finds(
            all in prop::collection::btree_map(".{0,3}", any_json(), 0..6),
            pretty in any::<bool>(),
        ) {
            let object = Value::Object(all.into_iter().collect());
            let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
            let text = text.unwrap();
            let mut found = serde_json::Map::new();
            for Member { name, inside, value } in Members::of(&text) {
                prop_assert_eq!(format!("\"{inside}\""), name);
                found.insert(serde_json::from_str(name).unwrap(), serde_json::from_str(value).unwrap());
            }
            // Floats may be read one step beside what was written.
            prop_assert_eq!(Value::Object(found), serde_json::from_str::<Value>(&text).unwrap());
        }

        #[test]
        fn the_elements_are_those_that_a_parser_finds(
            all in prop::collection::vec(any_json(), 0..6),
            pretty in any::<bool>(),
        ) {
            let array = Value::Array(all);
            let text = if pretty { serde_json::to_string_pretty(&array) } else { serde_json::to_string(&array) };
            let text = text.unwrap();
            let found: Result<Vec<Value>, _> = Elements::of(&text).map(serde_json::from_str).collect();
            prop_assert_eq!(Value::Array(found.unwrap()), serde_json::from_str::<Value>(&text).unwrap());
        }

        #[test]
        fn strings_end_where_they_end_whatever_their_length(
            texts in prop::collection::vec("[a\"\\\\é]{0,60}", 0..4),
        ) {
            let text = serde_json::to_string(&texts).unwrap();
            let found: Vec<String> = Elements::of(&text).map(|it| serde_json::from_str(it).unwrap()).collect();
            prop_assert_eq!(found, texts);
        }

        #[test]
        fn what_is_no_object_ends_and_harms_nobody(text in "[{}\\[\\],:\" \\\\aé1]{0,64}") {
            prop_assert!(Members::of(&text).count() <= text.len());
            prop_assert!(Elements::of(&text).count() <= text.len());
        }
    }
}
