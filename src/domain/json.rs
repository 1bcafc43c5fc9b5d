//! Reading a JSON object field by field, collecting every fault with its pointer.
//!
//! A body is checked for syntax once ([`Json::read`]); after that only types and values can be wrong, and each wrong one
//! is named. Unknown fields are faults too. Strangers send these bodies: reading one takes time in proportion to its length,
//! and what is remembered of it and said about it is bounded.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::SmallVec;

use crate::spelling::nearest;
use scan::{Looks, Nodes, VALUES_MAX};

mod scan;
mod spell;
mod surrogates;

pub use spell::{depth, minified, push_number, push_string};
pub use surrogates::{read_string, whole_surrogates};

/// Members that an object may have. No object of the API has half as many fields, so one that has more is refused whatever
/// they are; and a repeated name is looked for among few.
const MEMBERS_MAX: usize = 64;

/// Unknown fields of one object that are named, each by a fault of its own.
const UNKNOWN_MAX: usize = 16;

/// Bytes of an unknown name that are repeated to the sender. A longer one is cut, and no field is suggested for it.
const ECHO_MAX: usize = 64;

/// One thing wrong with a body: where (a JSON pointer, RFC 6901) and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A JSON pointer into the body; empty for the body itself.
    pub pointer: String,
    /// What is wrong and what would be right.
    pub detail: String,
}

/// Why a body was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not JSON at all; says where it stops being JSON.
    Syntax(String),
    /// JSON, but types or values are wrong; never empty.
    Invalid(Vec<Fault>),
}

/// Checks that `bytes` are one JSON text in UTF-8 and gives it back unread.
pub fn syntax(bytes: &[u8]) -> Result<&RawValue, Refused> {
    let text = text_of(bytes)?;
    serde_json::from_str::<&RawValue>(text).map_err(|e| Refused::Syntax(e.to_string()))
}

fn text_of(bytes: &[u8]) -> Result<&str, Refused> {
    let text = std::str::from_utf8(bytes)
        .map_err(|e| Refused::Syntax(format!("the body is not UTF-8 at byte {}", e.valid_up_to())))?;
    if text.trim_ascii().is_empty() {
        return Err(Refused::Syntax("the body is empty; send a JSON object".into()));
    }
    Ok(text)
}

/// A text that was found to be JSON, and where each of its values is.
pub struct Json<'a> {
    text: &'a str,
    nodes: Nodes,
}

impl<'a> Json<'a> {
    /// As [`syntax`]: one walk finds both.
    pub fn read(bytes: &'a [u8]) -> Result<Json<'a>, Refused> {
        let text = text_of(bytes)?;
        match Nodes::of(text) {
            Some(nodes) => Ok(Json { text, nodes }),
            // It knows better what is wrong, and says it as for every other body.
            None => syntax(bytes).map(Json::from),
        }
    }

    /// All of it, with the white space around it.
    pub fn text(&self) -> &'a str {
        self.text
    }
}

impl<'a> From<&'a RawValue> for Json<'a> {
    fn from(raw: &'a RawValue) -> Json<'a> {
        let text = raw.get();
        Json { text, nodes: Nodes::of(text).unwrap_or_default() }
    }
}

/// One step of a pointer.
fn spelled(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// A value in a text that was found to be JSON.
#[derive(Clone)]
struct ParsedValue<'a> {
    text: &'a str,
    nodes: Rc<Nodes>,
    /// The value that pointers begin with, in which it is.
    root: usize,
    at: usize,
}

impl<'a> ParsedValue<'a> {
    /// What is there.
    fn raw(&self) -> &'a str {
        self.nodes.value(self.text, self.at)
    }

    /// Made for a fault only: most bodies have none.
    fn pointer(&self) -> String {
        let (mut at, mut out) = (self.root, String::new());
        while at < self.at {
            // The last that begins before it is it, or it is in that.
            let Some(next) = self.nodes.within(at).take_while(|next| *next <= self.at).last() else { break };
            out += &spelled(&self.nodes.name(self.text, next));
            at = next;
        }
        out
    }

    /// One value in it, of which pointers begin with `root`.
    fn field(&self, at: usize, root: usize) -> Field<'a> {
        let raw = self.nodes.value(self.text, at);
        Field { raw, place: ParsedValue { text: self.text, nodes: self.nodes.clone(), root, at } }
    }
}

/// The fields of one JSON object, taken one by one. Of a repeated name the last counts.
///
/// It is large, so it is handed on by reference.
pub struct Object<'a> {
    place: ParsedValue<'a>,
    /// Its members but for those that were taken.
    fields: SmallVec<[Member<'a>; 8]>,
    escaped: Escaped<'a>,
    /// The names that were asked for, as far as they fit: what an unknown field may have meant.
    known: [&'static str; MAX_FIELDS],
    asked: usize,
}

#[derive(Clone, Copy)]
struct Member<'a> {
    /// `None` if it has escapes.
    name: Option<&'a [u8]>,
    /// The place of its value.
    at: usize,
}

/// What names with escapes mean, by the places of their values, which ascend.
#[derive(Default)]
struct Escaped<'a>(Vec<(usize, Cow<'a, str>)>);

impl Escaped<'_> {
    #[inline]
    fn is_name_of(&self, member: &Member<'_>, name: &str) -> bool {
        match member.name {
            Some(plain) => plain == name.as_bytes(),
            None => self.of(member.at) == Some(name),
        }
    }

    #[cold]
    fn of(&self, at: usize) -> Option<&str> {
        let found = self.0.binary_search_by_key(&at, |(at, _)| *at).ok()?;
        self.0.get(found).map(|(_, name)| name.as_ref())
    }
}

/// No object of the API has more fields.
const MAX_FIELDS: usize = 24;

/// A member name, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Object<'a> {
    /// Opens a body as an object; anything else is a fault.
    pub fn open(json: impl Into<Json<'a>>, faults: &mut Vec<Fault>) -> Option<Self> {
        let Json { text, nodes } = json.into();
        Object::open_at(ParsedValue { text, nodes: Rc::new(nodes), root: 0, at: 0 }, faults)
    }

    fn open_at(place: ParsedValue<'a>, faults: &mut Vec<Fault>) -> Option<Self> {
        let mut refuse = |why: String| {
            faults.push(fault(&place.pointer(), why));
            None
        };
        if place.nodes.too_many {
            return refuse(format!(
                "has more than {VALUES_MAX} values; send only fields that are documented"
            ));
        }
        if !place.raw().starts_with('{') {
            return refuse("must be an object".to_owned());
        }
        let (mut fields, mut escaped) = (SmallVec::<[Member<'a>; 8]>::new(), Escaped::default());
        // A bit for each name, which others may share: only if it is set are the earlier ones looked at.
        let mut seen = 0_u64;
        for at in place.nodes.within(place.at) {
            let member = Member { name: place.nodes.plain_name(place.text, at), at };
            let mut bit = u64::MAX;
            if let Some([first, rest @ ..]) = member.name {
                bit = 1 << ((usize::from(*first) + 7 * rest.len()) % 64);
            }
            if seen & bit != 0 || member.name.is_none() {
                let name = place.nodes.name(place.text, at);
                if let Some(earlier) = fields.iter().position(|member| escaped.is_name_of(member, &name)) {
                    fields.remove(earlier);
                }
                if member.name.is_none() {
                    escaped.0.push((at, name));
                }
            }
            if fields.len() == MEMBERS_MAX {
                let most =
                    format!("has more than {MEMBERS_MAX} members; send only fields that are documented");
                return refuse(most);
            }
            seen |= bit;
            fields.push(member);
        }
        Some(Object { place, fields, escaped, known: [""; MAX_FIELDS], asked: 0 })
    }

    /// The field's raw value and its pointer, or nothing when it is absent.
    pub fn take(&mut self, name: &'static str) -> Option<Field<'a>> {
        if let Some(known) = self.known.get_mut(self.asked) {
            *known = name;
            self.asked += 1;
        }
        let found = self.fields.iter().position(|member| self.escaped.is_name_of(member, name))?;
        let Member { at, .. } = self.fields.swap_remove(found);
        Some(self.place.field(at, self.place.root))
    }

    /// As [`Object::take`], but absence is a fault.
    pub fn need(&mut self, name: &'static str, faults: &mut Vec<Fault>) -> Option<Field<'a>> {
        let field = self.take(name);
        if field.is_none() {
            faults.push(fault(&(self.place.pointer() + &spelled(name)), "is required"));
        }
        field
    }

    /// Every field that was not taken is unknown: a fault each, for the first `UNKNOWN_MAX` of them.
    pub fn close(&self, faults: &mut Vec<Fault>) {
        if self.fields.is_empty() {
            return;
        }
        // Once: it looks at all that is beside the object, and a stranger may send much there and here.
        let inside = self.place.pointer();
        for Member { at, .. } in self.fields.iter().take(UNKNOWN_MAX) {
            let name = self.place.nodes.name(self.place.text, *at);
            faults.push(self.unknown(&inside, &name));
        }
        if let Some(more @ 1..) = self.fields.len().checked_sub(UNKNOWN_MAX) {
            faults.push(fault(&inside, format!("has {more} more unknown fields; remove them")));
        }
    }

    fn unknown(&self, inside: &str, name: &str) -> Fault {
        if name.len() > ECHO_MAX {
            let (start, len) = (&name[..name.floor_char_boundary(ECHO_MAX)], name.len());
            return fault(
                inside,
                format!("has an unknown field of {len} bytes that begins {start:?}; remove it"),
            );
        }
        let hint = match nearest(name, self.known[..self.asked].iter().copied()) {
            Some(known) => format!("did you mean {known:?}?"),
            None => "remove it".to_owned(),
        };
        fault(&format!("{inside}{}", spelled(name)), format!("unknown field {name:?}; {hint}"))
    }
}

/// Reads a body that is an object with nothing but a list, `{"gifts":[…]}`, in one walk that remembers the values of one
/// element at a time. `each` is called with every element and its index, before it is known that the rest is right; the
/// answer is how many elements there are.
///
/// What `each` did must be forgotten if this is an error, and when it is called with index 0 again: of a repeated list the
/// last one counts.
pub fn read_list<'a>(
    bytes: &'a [u8],
    name: &'static str,
    mut each: impl FnMut(usize, Item<'a>),
) -> Result<usize, Refused> {
    let text = text_of(bytes)?;
    let place = |nodes| ParsedValue { text, nodes, root: 0, at: 0 };
    let read = Nodes::of_list(text, name, |index, nodes| each(index, Item(place(nodes.clone()))));
    let (nodes, len) = match read {
        Some(read) => read,
        None => {
            // It knows better what is wrong. If nothing is, there is too much beside the list.
            syntax(bytes)?;
            (Nodes::too_many(), None)
        }
    };
    let mut faults = Vec::new();
    if let Some(mut body) = Object::open_at(place(Rc::new(nodes)), &mut faults) {
        if let (Some(field), None) = (body.need(name, &mut faults), len) {
            field.wrong(&mut faults, "must be an array");
        }
        body.close(&mut faults);
    }
    len.filter(|_| faults.is_empty()).ok_or(Refused::Invalid(faults))
}

/// The first `most` of `faults`. If there are more, another one says how many.
pub fn first_faults(mut faults: Vec<Fault>, most: usize) -> Vec<Fault> {
    let more = faults.len().saturating_sub(most);
    if more > 0 {
        faults.truncate(most);
        faults.push(fault("", format!("{more} more things are wrong; fix these first")));
    }
    faults
}

/// The value of one member of an object, whatever its name is; `None` if `raw` is no object or has no such
/// member. Of a repeated name the last counts.
pub fn member<'a>(raw: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    struct Walk<'n>(&'n str);
    impl<'de> Visitor<'de> for Walk<'_> {
        type Value = Option<&'de RawValue>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut found = None;
            while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                if name == self.0 {
                    found = Some(value);
                }
            }
            Ok(found)
        }
    }
    serde_json::Deserializer::from_str(raw.get()).deserialize_map(Walk(name)).ok().flatten()
}

/// One element of an array; `None` if `raw` is no array or is shorter.
pub fn element(raw: &RawValue, index: usize) -> Option<&RawValue> {
    let all: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
    all.get(index).copied()
}

/// A fault at `pointer`.
pub fn fault(pointer: &str, detail: impl Into<String>) -> Fault {
    Fault { pointer: pointer.to_owned(), detail: detail.into() }
}

/// One element of a list that [`read_list`] reads.
pub struct Item<'a>(ParsedValue<'a>);

impl<'a> Item<'a> {
    /// This element as an object. Its faults' pointers begin with it.
    pub fn object(self, faults: &mut Vec<Fault>) -> Option<Object<'a>> {
        Object::open_at(self.0, faults)
    }
}

/// One field that was present.
pub struct Field<'a> {
    /// The value as it stood in the body.
    pub raw: &'a str,
    place: ParsedValue<'a>,
}

impl<'a> Field<'a> {
    /// Records that this field is wrong.
    pub fn wrong(&self, faults: &mut Vec<Fault>, detail: impl Into<String>) {
        faults.push(fault(&self.place.pointer(), detail));
    }

    /// A string of any content.
    pub fn string(&self, faults: &mut Vec<Fault>) -> Option<String> {
        self.text(faults).map(Cow::into_owned)
    }

    /// A string of any content, borrowed where it has no escapes.
    pub fn text(&self, faults: &mut Vec<Fault>) -> Option<Cow<'a, str>> {
        if !self.raw.starts_with('"') {
            self.wrong(faults, "must be a string");
            return None;
        }
        if !self.looks().is_escaped {
            return self.raw.get(1..self.raw.len() - 1).map(Cow::Borrowed);
        }
        read_string(self.raw).map(Cow::Owned)
    }

    /// True for a string of printable ASCII without escapes, which means just what is written.
    pub fn is_plain(&self) -> bool {
        let looks = self.looks();
        self.raw.starts_with('"') && !looks.is_escaped && !looks.is_strange
    }

    fn looks(&self) -> Looks {
        self.place.nodes.looks(self.place.at)
    }

    /// An integer within `least..=most`; `5.0` and `"5"` are not integers.
    pub fn integer(&self, least: u64, most: u64, faults: &mut Vec<Fault>) -> Option<u64> {
        let read = self.raw.parse::<u64>().ok();
        let legal = read.filter(|n| (least..=most).contains(n));
        if legal.is_none() {
            self.wrong(faults, format!("must be an integer from {least} to {most}"));
        }
        legal
    }

    /// `true` or `false`.
    pub fn boolean(&self, faults: &mut Vec<Fault>) -> Option<bool> {
        match self.raw {
            "true" => Some(true),
            "false" => Some(false),
            _ => {
                self.wrong(faults, "must be true or false");
                None
            }
        }
    }

    /// The elements of an array, each to be judged alone: their faults' pointers begin with them.
    pub fn items(&self, most: usize, faults: &mut Vec<Fault>) -> Option<Vec<Field<'a>>> {
        if !self.raw.starts_with('[') {
            self.wrong(faults, "must be an array");
            return None;
        }
        let places = || self.place.nodes.within(self.place.at);
        let items: Vec<_> = places().take(most).map(|at| self.place.field(at, at)).collect();
        let all = places().count();
        if all > most {
            self.wrong(faults, format!("must have at most {most} items; it has {all}"));
            return None;
        }
        Some(items)
    }

    /// This field as an object.
    pub fn object(&self, faults: &mut Vec<Fault>) -> Option<Object<'a>> {
        Object::open_at(self.place.clone(), faults)
    }
}

#[cfg(test)]
mod tests;
