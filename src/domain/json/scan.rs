//! One walk over a text that says whether it is JSON, and where each of its values stands: nothing looks for that a second time.

const ONES: u64 = u64::from_le_bytes([1; 8]);

/// The highest bit of each byte.
const HIGH: u64 = ONES << 7;

/// Marks the highest bit of each byte that ends a string or cannot stand in one as it is: quotes, backslashes and control characters.
/// And perhaps of some that stand behind such a one.
fn special(word: u64) -> u64 {
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
    let quoting = zeros(word ^ (ONES * b'"' as u64)) | zeros(word ^ (ONES * b'\\' as u64));
    (quoting | (word.wrapping_sub(ONES * b' ' as u64) & !word)) & HIGH
}

/// True when there is a quote, a backslash or a control character.
pub(super) fn has_special(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some((word, behind)) = rest.split_first_chunk() {
        if special(u64::from_le_bytes(*word)) != 0 {
            return true;
        }
        rest = behind;
    }
    match text.last_chunk() {
        // The last eight, some of which were looked at already.
        Some(word) => special(u64::from_le_bytes(*word)) != 0,
        None => rest.iter().any(|byte| matches!(byte, b'"' | b'\\' | 0..b' ')),
    }
}

/// Where something stands in a text, in bytes.
#[derive(Clone, Copy, Default)]
struct Span {
    from: u32,
    to: u32,
}

impl Span {
    fn of(self, text: &str) -> &str {
        text.get(self.from as usize..self.to as usize).unwrap_or_default()
    }
}

/// A value.
#[derive(Clone, Copy)]
struct Node {
    value: Span,
    /// What stands between the quotes of its name; empty for what is no member of an object.
    name: Span,
    /// So many nodes are it and what is in it, which stand behind it.
    len: u32,
    /// A backslash is in its name.
    name_is_escaped: bool,
    /// It is a string, and this is how its bytes look.
    string: Looks,
}

/// What a walk over a string saw.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    /// A backslash.
    pub(super) is_escaped: bool,
    /// Something that is no printable ASCII: what is not ASCII at all, or the control character that JSON lets stand (DEL).
    pub(super) is_strange: bool,
}

/// The values of a JSON text. A value is told by its place among them; the text is the first.
#[derive(Default)]
pub(super) struct Nodes(Vec<Node>);

/// The name of a member.
pub(super) struct Name<'a> {
    /// What stands between its quotes.
    pub(super) inside: &'a str,
    /// With them.
    pub(super) quoted: &'a str,
    pub(super) is_escaped: bool,
}

impl Nodes {
    /// Of a text; none when it is no JSON.
    pub(super) fn of(text: &str) -> Option<Nodes> {
        // An entry of a batch has a dozen in some 250 bytes.
        let nodes = Vec::with_capacity(text.len() / 20 + 4);
        u32::try_from(text.len()).ok()?;
        let mut walk = Walk { bytes: text.as_bytes(), at: 0, nodes, open: Vec::new() };
        walk.whole()?;
        Some(Nodes(walk.nodes))
    }

    /// The value as it stands in the text.
    pub(super) fn value<'a>(&self, text: &'a str, place: usize) -> &'a str {
        self.0.get(place).map_or("", |node| node.value.of(text))
    }

    /// How the bytes of a string look.
    pub(super) fn looks(&self, place: usize) -> Looks {
        self.0.get(place).map_or(Looks::default(), |node| node.string)
    }

    /// The name of a member.
    pub(super) fn name<'a>(&self, text: &'a str, place: usize) -> Name<'a> {
        let (name, is_escaped) =
            self.0.get(place).map_or((Span::default(), false), |node| (node.name, node.name_is_escaped));
        let quoted = Span { from: name.from.saturating_sub(1), to: name.to + 1 };
        Name { inside: name.of(text), quoted: quoted.of(text), is_escaped }
    }

    /// The places of the members of an object, or of the elements of an array, in their order.
    pub(super) fn within(&self, place: usize) -> impl Iterator<Item = usize> {
        let end = self.0.get(place).map_or(place, |node| place + node.len as usize);
        let mut next = place + 1;
        std::iter::from_fn(move || {
            let found = next;
            let node = self.0.get(found).filter(|_| found < end)?;
            next += node.len as usize;
            Some(found)
        })
    }
}

/// A place in a text.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    /// Objects and arrays that have begun and not ended, but for the innermost.
    open: Vec<u32>,
}

/// What a place is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Object,
    Array,
}

impl Walk<'_> {
    /// Walks over the whole text.
    fn whole(&mut self) -> Option<()> {
        // The innermost object or array that has begun.
        let mut inner: Option<(u32, Inside)> = None;
        loop {
            let mut first = self.skip()?;
            let (mut name, mut name_is_escaped) = (Span::default(), false);
            if let Some((_, Inside::Object)) = inner {
                if first != b'"' {
                    return None;
                }
                let looks;
                (name, looks) = self.string()?;
                name_is_escaped = looks.is_escaped;
                if self.skip()? != b':' {
                    return None;
                }
                self.at += 1;
                first = self.skip()?;
            }
            let place = self.nodes.len() as u32;
            let value = Span { from: self.at as u32, to: 0 };
            self.nodes.push(Node { value, name, len: 1, name_is_escaped, string: Looks::default() });
            let mut string = Looks::default();
            match first {
                b'"' => (_, string) = self.string()?,
                b'{' | b'[' => {
                    let (inside, end) =
                        if first == b'{' { (Inside::Object, b'}') } else { (Inside::Array, b']') };
                    self.at += 1;
                    if self.skip()? != end {
                        self.open.extend(inner.map(|(place, _)| place));
                        inner = Some((place, inside));
                        continue;
                    }
                    self.at += 1;
                }
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => return None,
            }
            let node = self.nodes.last_mut()?;
            (node.value.to, node.string) = (self.at as u32, string);
            // Whatever ends here.
            loop {
                let Some((place, inside)) = inner else {
                    return self.skip().is_none().then_some(());
                };
                match (self.skip()?, inside) {
                    (b',', _) => {
                        self.at += 1;
                        break;
                    }
                    (b'}', Inside::Object) | (b']', Inside::Array) => {
                        self.at += 1;
                        let all = self.nodes.len() as u32;
                        let node = self.nodes.get_mut(place as usize)?;
                        (node.value.to, node.len) = (self.at as u32, all - place);
                        inner = self.open.pop().map(|outer| (outer, self.inside(outer)));
                    }
                    _ => return None,
                }
            }
        }
    }

    fn inside(&self, place: u32) -> Inside {
        let first = self.nodes.get(place as usize).and_then(|node| self.bytes.get(node.value.from as usize));
        if first == Some(&b'{') { Inside::Object } else { Inside::Array }
    }

    /// Moves to the next byte that is no white space, and tells it.
    fn skip(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.at)? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                other => return Some(*other),
            }
        }
    }

    /// Moves behind the string that begins here: where it stands without its quotes, and how it looks.
    fn string(&mut self) -> Option<(Span, Looks)> {
        // The highest bit of each byte that is DEL or no ASCII, and perhaps of some that stand behind one that is none.
        let strange = |word: u64| word | word.wrapping_add(ONES);
        self.at += 1;
        let from = self.at;
        let (mut seen, mut is_escaped) = (0, false);
        loop {
            let rest = self.bytes.get(self.at..)?;
            let word = match rest.first_chunk::<8>() {
                Some(word) => *word,
                None => {
                    // Zeros end a string, which is not over yet.
                    let mut last = [0; 8];
                    last[..rest.len()].copy_from_slice(rest);
                    last
                }
            };
            let word = u64::from_le_bytes(word);
            let marks = special(word);
            if marks == 0 {
                seen |= strange(word);
                self.at += 8;
                continue;
            }
            // What stands before the first of them.
            seen |= strange(word) & (marks & marks.wrapping_neg()).wrapping_sub(1);
            self.at += marks.trailing_zeros() as usize / 8;
            match self.bytes.get(self.at)? {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    self.escape()?;
                }
                _ => return None,
            }
        }
        let span = Span { from: from as u32, to: self.at as u32 };
        self.at += 1;
        Some((span, Looks { is_escaped, is_strange: seen & HIGH != 0 }))
    }

    /// Moves behind the escape that begins here. What a surrogate lacks is no matter of syntax.
    fn escape(&mut self) -> Option<()> {
        self.at += match self.bytes.get(self.at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' => {
                let digits = self.bytes.get(self.at + 2..self.at + 6)?;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(6)?
            }
            _ => return None,
        };
        Some(())
    }

    /// Moves behind the number that begins here.
    fn number(&mut self) -> Option<()> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.bytes.get(self.at)? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits()?,
            _ => return None,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// Moves behind one digit or more.
    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.at += word.len();
        (self.bytes.get(self.at - word.len()..self.at)? == word).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
            "[\\[\\]{}\",:\\\\ ]*".prop_map(Value::from),
            "[a\"\\\\é\u{7f}]{0,60}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-c\"\\\\é{}]{0,3}", inner, 0..6)
                    .prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    /// What the values at a place and in it say, each read by itself.
    fn read(nodes: &Nodes, text: &str, place: usize) -> Value {
        let raw = nodes.value(text, place);
        match raw.as_bytes()[0] {
            b'{' => {
                let member = |at| {
                    let name = nodes.name(text, at);
                    assert_eq!(name.quoted, format!("\"{}\"", name.inside));
                    assert_eq!(name.is_escaped, name.inside.contains('\\'));
                    (serde_json::from_str(name.quoted).unwrap(), read(nodes, text, at))
                };
                Value::Object(nodes.within(place).map(member).collect())
            }
            b'[' => nodes.within(place).map(|at| read(nodes, text, at)).collect(),
            b'"' => {
                let is_strange = raw.bytes().any(|byte| !(b' '..=b'~').contains(&byte));
                assert_eq!(nodes.looks(place), Looks { is_escaped: raw.contains('\\'), is_strange }, "{raw}");
                serde_json::from_str(raw).unwrap()
            }
            _ => serde_json::from_str(raw).unwrap(),
        }
    }

    fn is_json(text: &str) -> bool {
        serde_json::from_str::<&RawValue>(text).is_ok()
    }

    proptest! {
        #[test]
        fn values_stand_where_a_parser_finds_them(value in any_json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.unwrap();
            // Floats may be read one step beside what was written.
            let parsed: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read(&Nodes::of(&text).unwrap(), &text, 0), parsed);
        }

        #[test]
        fn special_bytes_are_found_wherever_they_stand(text in "[a-z\"\\\\é\u{7f}\u{1}]{0,30}|[ -~é]{0,30}") {
            let is_special = |byte| matches!(byte, b'"' | b'\\' | 0..=31);
            prop_assert_eq!(has_special(text.as_bytes()), text.bytes().any(is_special));
        }

        #[test]
        fn what_is_json_is_what_a_parser_takes_for_it(text in "[{}\\[\\],:\" \\\\au0-9.eE+-]{0,12}") {
            prop_assert_eq!(Nodes::of(&text).is_some(), is_json(&text));
        }

        #[test]
        fn one_byte_more_or_less_is_judged_as_a_parser_judges_it(
            value in any_json(),
            at in any::<prop::sample::Index>(),
            byte in prop::sample::select(&b"{}[],:\"\\ \n\x00\x1f\x7f019-+.eEtrufalsn"[..]),
            how in 0..3,
        ) {
            let mut text = value.to_string().into_bytes();
            let at = at.index(text.len());
            match how {
                0 => text.insert(at, byte),
                1 => text[at] = byte,
                _ => drop(text.remove(at)),
            }
            if let Ok(text) = String::from_utf8(text) {
                prop_assert_eq!(Nodes::of(&text).is_some(), is_json(&text), "{}", text);
            }
        }
    }

    #[test]
    fn odd_texts_are_judged_as_a_parser_judges_them() {
        let deep = format!("{}{}", "[".repeat(3000), "]".repeat(3000));
        for text in [
            "",
            " ",
            "{",
            "{}",
            "[",
            "[]",
            "nul",
            "null",
            "nulll",
            "-",
            "-0",
            "-01",
            "01",
            "0.",
            "0.5",
            ".5",
            "1e",
            "1e9",
            "1e+9",
            "1E-",
            "1e999",
            "2.5e-7x",
            "\"",
            "\"\\",
            "\"\\\"",
            "\"\\\"\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\\ud800\"",
            "\"\\x\"",
            "\"\u{1f}\"",
            "\"\u{7f}\"",
            "[1,]",
            "[,1]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{1:1}",
            "{\"a\":1]",
            "[1}",
            "{} x",
            " {} ",
            "\u{feff}{}",
            "{\"a\" : [ ] , \"b\":{ }\t}\r\n",
            "\"12345678\\n12345678\"",
            "\"1234567\"",
            "\"12345678\"",
            "tru",
            "falsey",
            "[1 2]",
            "{\"a\":1 \"b\":2}",
            "\u{a0}1",
            "\u{b}1",
            deep.as_str(),
        ] {
            assert_eq!(Nodes::of(text).is_some(), is_json(text), "{text}");
        }
    }
}
