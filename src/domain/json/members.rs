//! The members of a JSON object in a text that was found to be JSON before: only where each begins and ends is
//! looked for, and nothing is judged a second time.

use memchr::memchr2;

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
pub(super) struct Members<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Members<'a> {
    /// Of the object that `text` is.
    pub fn of(text: &'a str) -> Members<'a> {
        Members { text, at: 1 }
    }

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
            let found = memchr2(b'"', b'\\', rest)?;
            let ends = rest[found] == b'"';
            self.at += found + if ends { 1 } else { 2 };
            if ends {
                return Some(());
            }
        }
    }

    /// Moves behind the value that begins with `first` here.
    fn pass_value(&mut self, first: u8) -> Option<()> {
        if first == b'"' {
            return self.pass_string();
        }
        let mut depth = 0_usize;
        loop {
            match self.text.as_bytes().get(self.at)? {
                b'"' => {
                    self.pass_string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                // What ends the object ends a number or a word in it, too.
                b'}' | b']' | b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return Some(()),
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return Some(());
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        if self.skip(b',')? != b'"' {
            return None;
        }
        let begun = self.at;
        self.pass_string()?;
        let (name, inside) = (self.text.get(begun..self.at)?, self.text.get(begun + 1..self.at - 1)?);
        let first = self.skip(b':')?;
        let begun = self.at;
        self.pass_value(first)?;
        Some(Member { name, inside, value: self.text.get(begun..self.at)? })
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
        fn what_is_no_object_ends_and_harms_nobody(text in "[{}\\[\\],:\" \\\\aé1]{0,24}") {
            prop_assert!(Members::of(&text).count() <= text.len());
        }
    }
}
