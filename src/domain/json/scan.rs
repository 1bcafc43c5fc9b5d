//! One walk over a text that says whether it is JSON, and where each of its values stands: nothing looks for that a second time.

use std::borrow::Cow;

const ONES: u64 = u64::from_le_bytes([1; 8]);

/// The highest bit of each byte.
const HIGH: u64 = ONES << 7;

/// Marks the highest bit of each byte that ends a string or cannot stand in one as it is: quotes, backslashes and control characters.
/// And perhaps of some that stand behind such a one.
#[inline]
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

/// Fewer than eight bytes, with zeros behind them, which end a string that is not over yet.
#[cold]
fn last_word(rest: &[u8]) -> [u8; 8] {
    let mut word = [0; 8];
    word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    word
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
#[derive(Clone, Copy)]
pub(super) struct Name<'a> {
    /// What stands between its quotes.
    pub(super) inside: &'a str,
    /// With them.
    pub(super) quoted: &'a str,
    pub(super) is_escaped: bool,
}

impl<'a> Name<'a> {
    /// What it says.
    pub(super) fn read(self) -> serde_json::Result<Cow<'a, str>> {
        if self.is_escaped {
            serde_json::from_str(self.quoted).map(Cow::Owned)
        } else {
            Ok(Cow::Borrowed(self.inside))
        }
    }
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
    #[inline]
    pub(super) fn value<'a>(&self, text: &'a str, place: usize) -> &'a str {
        self.0.get(place).map_or("", |node| node.value.of(text))
    }

    /// How the bytes of a string look.
    #[inline]
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

    /// The name of a member, of which nothing is escaped.
    #[inline]
    pub(super) fn plain_name<'a>(&self, text: &'a str, place: usize) -> Option<&'a [u8]> {
        let node = self.0.get(place).filter(|node| !node.name_is_escaped)?;
        text.as_bytes().get(node.name.from as usize..node.name.to as usize)
    }

    /// The places of the members of an object, or of the elements of an array, in their order.
    #[inline]
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
                let from = self.at as u32 + 1;
                name_is_escaped = self.string()?.is_escaped;
                name = Span { from, to: self.at as u32 - 1 };
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
                b'"' => string = self.string()?,
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
    #[inline]
    fn skip(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.at)? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                other => return Some(*other),
            }
        }
    }

    /// Moves behind the string that begins here, and tells how it looks.
    #[inline]
    fn string(&mut self) -> Option<Looks> {
        // The highest bit of each byte that is DEL or no ASCII, and perhaps of some that stand behind such a one.
        let strange = |word: u64| word | word.wrapping_add(ONES);
        let (mut at, mut seen, mut is_escaped) = (self.at + 1, 0, false);
        loop {
            let rest = self.bytes.get(at..)?;
            let word = u64::from_le_bytes(match rest.first_chunk::<8>() {
                Some(word) => *word,
                None => last_word(rest),
            });
            let marks = special(word);
            if marks == 0 {
                seen |= strange(word);
                at += 8;
                continue;
            }
            // What stands before the first of them.
            seen |= strange(word) & (marks & marks.wrapping_neg()).wrapping_sub(1);
            at += marks.trailing_zeros() as usize / 8;
            match self.bytes.get(at)? {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    at += self.escape(at)?;
                }
                _ => return None,
            }
        }
        self.at = at + 1;
        Some(Looks { is_escaped, is_strange: seen & HIGH != 0 })
    }

    /// How long the escape is that begins there. What a surrogate lacks is no matter of syntax.
    #[cold]
    fn escape(&self, at: usize) -> Option<usize> {
        match self.bytes.get(at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
            b'u' => self.bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit).then_some(6),
            _ => None,
        }
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
mod tests;
