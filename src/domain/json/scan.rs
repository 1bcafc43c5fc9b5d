//! One walk over a text that says whether it is JSON, and where each of its values is: nothing looks for that a second time.
//!
//! Strangers send these texts. The walk takes time in proportion to the text's length, and remembers at most
//! [`VALUES_MAX`] values.

use std::borrow::Cow;
use std::rc::Rc;

use serde::de::IgnoredAny;

use super::surrogates::read_string;

const ONES: u64 = u64::from_le_bytes([1; 8]);

/// The highest bit of each byte.
const HIGH: u64 = ONES << 7;

/// Marks the highest bit of each byte that ends a string or cannot be in one as it is: quotes, backslashes and control characters.
/// And perhaps of some that come behind such a one.
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

/// The place of something in a text, in bytes.
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
    member: Member,
    /// How many nodes are it and what is in it, which follow it.
    len: u32,
    /// It is a string, and this is how its bytes look.
    string: Looks,
}

/// What a value is called in the object that it is in; the default of a value that is in none.
#[derive(Clone, Copy, Default)]
struct Member {
    /// Between the quotes.
    name: Span,
    /// A backslash is in it.
    is_escaped: bool,
}

/// Bytes of a name, as it is written, beyond which its escapes are not read: no field has such a name.
const NAME_MAX: usize = 192;

impl Member {
    /// The name without its escapes. A long one is given as it is written.
    #[cold]
    fn unescaped(self, text: &str) -> Cow<'_, str> {
        let written = self.name.of(text);
        let read = (written.len() <= NAME_MAX).then(|| read_string(&format!("\"{written}\""))).flatten();
        read.map_or(Cow::Borrowed(written), Cow::Owned)
    }

    fn is(self, name: &str, text: &str) -> bool {
        match self.is_escaped {
            true => self.unescaped(text) == name,
            false => self.name.of(text) == name,
        }
    }
}

/// What a walk over a string saw.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    /// A backslash.
    pub(super) is_escaped: bool,
    /// Something that is no printable ASCII: what is not ASCII at all, or the control character that JSON lets stand (DEL).
    pub(super) is_strange: bool,
}

/// Values of a body, or of one element of a list, that are remembered. No body that is right has half as many.
pub(super) const VALUES_MAX: usize = 4096;

/// The values of a JSON text. A value is named by its place among them; the text is the first.
#[derive(Default)]
pub(super) struct Nodes {
    all: Vec<Node>,
    /// There are more than [`VALUES_MAX`]; none of them is in `all`.
    pub(super) too_many: bool,
}

impl Nodes {
    /// Of a text with more than [`VALUES_MAX`] values.
    pub(super) fn too_many() -> Nodes {
        Nodes { all: Vec::new(), too_many: true }
    }

    /// Of a text; `None` if it is not JSON.
    pub(super) fn of(text: &str) -> Option<Nodes> {
        let mut walk = Walk::over(text, 0, Vec::with_capacity((text.len() / 20 + 4).min(VALUES_MAX)))?;
        let nodes = walk.one_value()?;
        walk.skip().is_none().then_some(nodes)
    }

    /// Of a text in which the member `name` of the outermost object is a list. `each` gets the values of one element after
    /// the other; the answer has all but those. The number is how many elements there are, `None` if there is no such list.
    /// Of a repeated list the last one counts: `each` is called with index 0 again.
    ///
    /// `None` if the text is not JSON, or has too many values outside of the list.
    pub(super) fn of_list(
        text: &str,
        name: &str,
        mut each: impl FnMut(usize, &Rc<Nodes>),
    ) -> Option<(Nodes, Option<usize>)> {
        let (mut walk, mut len) = (Walk::over(text, 0, Vec::new())?, None);
        if walk.skip()? != b'{' {
            return Nodes::of(text).map(|nodes| (nodes, None));
        }
        walk.push(Member::default())?;
        walk.separated(b'}', |walk| {
            let member = walk.name()?;
            let is_list = member.is(name, text);
            if is_list {
                len = None;
            }
            if !is_list || walk.skip()? != b'[' {
                return walk.value(member);
            }
            let place = walk.push(member)?;
            let (mut index, mut nodes) = (0, Rc::<Nodes>::default());
            walk.separated(b']', |walk| {
                // The room of the element before, unless somebody kept it.
                let room =
                    Rc::get_mut(&mut nodes).map(|nodes| std::mem::take(&mut nodes.all)).unwrap_or_default();
                let mut element = Walk::over(text, walk.at, room)?;
                let read = element.one_value()?;
                match Rc::get_mut(&mut nodes) {
                    Some(own) => *own = read,
                    None => nodes = Rc::new(read),
                }
                walk.at = element.at;
                each(index, &nodes);
                index += 1;
                Some(())
            })?;
            len = Some(index);
            walk.end(place)
        })?;
        walk.end(0)?;
        walk.skip().is_none().then_some((Nodes { all: walk.nodes, too_many: false }, len))
    }

    /// The value as the text has it.
    #[inline]
    pub(super) fn value<'a>(&self, text: &'a str, place: usize) -> &'a str {
        self.all.get(place).map_or("", |node| node.value.of(text))
    }

    /// How the bytes of a string look.
    #[inline]
    pub(super) fn looks(&self, place: usize) -> Looks {
        self.all.get(place).map_or(Looks::default(), |node| node.string)
    }

    /// The name of a member, without its escapes.
    pub(super) fn name<'a>(&self, text: &'a str, place: usize) -> Cow<'a, str> {
        let member = self.all.get(place).map_or(Member::default(), |node| node.member);
        if member.is_escaped { member.unescaped(text) } else { Cow::Borrowed(member.name.of(text)) }
    }

    /// The name of a member, if it has no escapes.
    #[inline]
    pub(super) fn plain_name<'a>(&self, text: &'a str, place: usize) -> Option<&'a [u8]> {
        let member = self.all.get(place).map(|node| node.member).filter(|member| !member.is_escaped)?;
        text.as_bytes().get(member.name.from as usize..member.name.to as usize)
    }

    /// The places of the members of an object, or of the elements of an array, in their order.
    #[inline]
    pub(super) fn within(&self, place: usize) -> impl Iterator<Item = usize> {
        let end = self.all.get(place).map_or(place, |node| place + node.len as usize);
        let mut next = place + 1;
        std::iter::from_fn(move || {
            let found = next;
            let node = self.all.get(found).filter(|_| found < end)?;
            next += node.len as usize;
            Some(found)
        })
    }
}

/// A place in a text. Its methods move it, and give `None` where the text is no JSON, or has too many values.
struct Walk<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    /// Objects and arrays that have begun and not ended, but for the innermost.
    open: Vec<u32>,
    /// There are more than [`VALUES_MAX`] values, so the walk has ended early.
    too_many: bool,
}

/// What a place is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Object,
    Array,
}

impl<'a> Walk<'a> {
    /// From `at` on, with `nodes` as room for values. `None` for a text that is too long for any body.
    fn over(text: &'a str, at: usize, mut nodes: Vec<Node>) -> Option<Walk<'a>> {
        u32::try_from(text.len()).ok()?;
        nodes.clear();
        Some(Walk { text, bytes: text.as_bytes(), at, nodes, open: Vec::new(), too_many: false })
    }

    /// Walks over one value that is no member, and gives what is in it.
    fn one_value(&mut self) -> Option<Nodes> {
        self.skip()?;
        let from = self.at;
        if self.value(Member::default()).is_some() {
            return Some(Nodes { all: std::mem::take(&mut self.nodes), too_many: false });
        }
        if !self.too_many {
            return None;
        }
        // Whether it is JSON must be known nevertheless, and where it ends.
        let mut rest = serde_json::Deserializer::from_str(self.text.get(from..)?).into_iter::<IgnoredAny>();
        rest.next()?.ok()?;
        self.at = from + rest.byte_offset();
        Some(Nodes::too_many())
    }

    /// Notes a value that begins at the next byte that is no white space, and gives its place.
    #[inline]
    fn push(&mut self, member: Member) -> Option<usize> {
        if self.nodes.len() >= VALUES_MAX {
            self.too_many = true;
            return None;
        }
        let value = Span { from: self.at as u32, to: 0 };
        self.nodes.push(Node { value, member, len: 1, string: Looks::default() });
        Some(self.nodes.len() - 1)
    }

    /// Notes that an object or array has ended here.
    #[inline]
    fn end(&mut self, place: usize) -> Option<()> {
        let all = self.nodes.len() as u32;
        let node = self.nodes.get_mut(place)?;
        (node.value.to, node.len) = (self.at as u32, all - place as u32);
        Some(())
    }

    /// Walks over the bracket that begins here and its `end`, with a call for each thing between the commas.
    fn separated(&mut self, end: u8, mut one: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        if self.skip()? == end {
            self.at += 1;
            return Some(());
        }
        loop {
            one(self)?;
            let next = self.skip()?;
            self.at += 1;
            if next == end {
                return Some(());
            }
            if next != b',' {
                return None;
            }
        }
    }

    /// Walks over the name of a member and its colon.
    #[inline]
    fn name(&mut self) -> Option<Member> {
        if self.skip()? != b'"' {
            return None;
        }
        let from = self.at as u32 + 1;
        let is_escaped = self.string()?.is_escaped;
        let name = Span { from, to: self.at as u32 - 1 };
        if self.skip()? != b':' {
            return None;
        }
        self.at += 1;
        Some(Member { name, is_escaped })
    }

    /// Walks over one value and all that is in it. Does not recurse: a stranger chooses how deep it is.
    #[inline]
    fn value(&mut self, mut member: Member) -> Option<()> {
        // The innermost object or array that has begun.
        let mut inner: Option<(u32, Inside)> = None;
        loop {
            let first = self.skip()?;
            let place = self.push(member)?;
            let mut string = Looks::default();
            match first {
                b'"' => string = self.string()?,
                b'{' | b'[' => {
                    let (inside, end) =
                        if first == b'{' { (Inside::Object, b'}') } else { (Inside::Array, b']') };
                    self.at += 1;
                    if self.skip()? != end {
                        self.open.extend(inner.map(|(place, _)| place));
                        inner = Some((place as u32, inside));
                        member = self.name_in(inside)?;
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
                let Some((place, inside)) = inner else { return Some(()) };
                match (self.skip()?, inside) {
                    (b',', _) => {
                        self.at += 1;
                        member = self.name_in(inside)?;
                        break;
                    }
                    (b'}', Inside::Object) | (b']', Inside::Array) => {
                        self.at += 1;
                        self.end(place as usize)?;
                        inner = self.open.pop().map(|outer| (outer, self.inside(outer)));
                    }
                    _ => return None,
                }
            }
        }
    }

    /// Walks over the name of what comes next, if it has one.
    #[inline]
    fn name_in(&mut self, inside: Inside) -> Option<Member> {
        if inside == Inside::Object { self.name() } else { Some(Member::default()) }
    }

    fn inside(&self, place: u32) -> Inside {
        let first = self.nodes.get(place as usize).and_then(|node| self.bytes.get(node.value.from as usize));
        if first == Some(&b'{') { Inside::Object } else { Inside::Array }
    }

    /// Moves to the next byte that is no white space, and gives it; `None` at the end of the text.
    #[inline]
    fn skip(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.at)? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                other => return Some(*other),
            }
        }
    }

    /// Moves behind the string that begins here. Returns how it looks.
    #[inline]
    fn string(&mut self) -> Option<Looks> {
        // The highest bit of each byte that is DEL or no ASCII, and perhaps of some that come behind such a one.
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
            // What is in front of the first of them.
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
