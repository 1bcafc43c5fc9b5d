//! Reading a JSON object field by field, collecting every fault with its pointer.
//!
//! A body is checked for syntax once ([`syntax`]); after that only types and values can be
//! wrong, and each wrong one is named. Unknown fields are faults too.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::SmallVec;

use crate::spelling::nearest;
use scan::{Looks, Nodes};

mod scan;

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

/// A text that was found to be JSON, and where each of its values stands.
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

    /// All of it, with what white space stands around it.
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

/// Where a field stands, as names from the outside in. Made into a pointer only for a fault: most bodies
/// have none.
#[derive(Clone, Copy, Default)]
struct FieldPath {
    names: [&'static str; FieldPath::DEEPEST],
    depth: usize,
}

impl FieldPath {
    /// Deeper than what any body's fields nest.
    const DEEPEST: usize = 4;

    fn inside(mut self, name: &'static str) -> FieldPath {
        if let Some(slot) = self.names.get_mut(self.depth) {
            *slot = name;
            self.depth += 1;
        }
        self
    }

    fn pointer(&self) -> String {
        self.names[..self.depth].iter().map(|name| spelled(name)).collect()
    }
}

/// One step of a pointer.
fn spelled(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// A place in a text that was found to be JSON.
#[derive(Clone)]
struct Place<'a> {
    text: &'a str,
    nodes: Rc<Nodes>,
    at: usize,
}

impl<'a> Place<'a> {
    /// What stands there.
    fn raw(&self) -> &'a str {
        self.nodes.value(self.text, self.at)
    }

    fn field(&self, at: usize, path: FieldPath) -> Field<'a> {
        let raw = self.nodes.value(self.text, at);
        let has_more = raw.starts_with(['{', '[']);
        let within = has_more.then(|| Place { text: self.text, nodes: self.nodes.clone(), at });
        Field { raw, path, looks: self.nodes.looks(at), within }
    }
}

/// The fields of one JSON object, taken one by one. Of a repeated name the last counts.
pub struct Object<'a> {
    path: FieldPath,
    place: Place<'a>,
    /// Names and where the values stand.
    fields: SmallVec<[(Cow<'a, str>, usize); 8]>,
    /// What was asked for, as far as it fits: the names that an unknown field may have meant.
    known: [&'static str; KNOWN],
    asked: usize,
}

/// No object of the API has more fields.
const KNOWN: usize = 24;

/// A member name, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Object<'a> {
    /// Opens a body as an object; anything else is a fault.
    pub fn open(json: impl Into<Json<'a>>, faults: &mut Vec<Fault>) -> Option<Self> {
        let Json { text, nodes } = json.into();
        Object::open_at(Place { text, nodes: Rc::new(nodes), at: 0 }, FieldPath::default(), faults)
    }

    fn open_at(place: Place<'a>, path: FieldPath, faults: &mut Vec<Fault>) -> Option<Self> {
        if !place.raw().starts_with('{') {
            faults.push(fault(&path.pointer(), "must be an object"));
            return None;
        }
        let mut fields = SmallVec::<[(Cow<'a, str>, usize); 8]>::new();
        for at in place.nodes.within(place.at) {
            let name = place.nodes.name(place.text, at);
            let name = if !name.is_escaped {
                Cow::Borrowed(name.inside)
            } else {
                match serde_json::from_str(name.quoted) {
                    Ok(name) => Cow::Owned(name),
                    Err(e) => {
                        let detail = format!("has a member name that cannot be read: {e}");
                        faults.push(fault(&path.pointer(), detail));
                        return None;
                    }
                }
            };
            if fields.iter().any(|(known, _)| *known == name) {
                fields.retain(|(known, _)| *known != name);
            }
            fields.push((name, at));
        }
        Some(Object { path, place, fields, known: [""; KNOWN], asked: 0 })
    }

    /// The field's raw value and its pointer, or nothing when it is absent.
    pub fn take(&mut self, name: &'static str) -> Option<Field<'a>> {
        if let Some(place) = self.known.get_mut(self.asked) {
            *place = name;
            self.asked += 1;
        }
        let at = self.fields.iter().position(|(known, _)| known == name)?;
        let (_, at) = self.fields.swap_remove(at);
        Some(self.place.field(at, self.path.inside(name)))
    }

    /// As [`Object::take`], but absence is a fault.
    pub fn need(&mut self, name: &'static str, faults: &mut Vec<Fault>) -> Option<Field<'a>> {
        let field = self.take(name);
        if field.is_none() {
            faults.push(fault(&self.path.inside(name).pointer(), "is required"));
        }
        field
    }

    /// Every field that nobody took is unknown: a fault each.
    pub fn close(self, faults: &mut Vec<Fault>) {
        for (name, _) in &self.fields {
            let pointer = self.path.pointer() + &spelled(name);
            let hint = match nearest(name, self.known[..self.asked].iter().copied()) {
                Some(known) => format!("did you mean {known:?}?"),
                None => "remove it".to_owned(),
            };
            faults.push(fault(&pointer, format!("unknown field {name:?}; {hint}")));
        }
    }
}

/// The value of one member of an object, whatever its name is; none when `raw` is no object or has no such
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

/// One element of an array; none when `raw` is no array or is shorter.
pub fn element(raw: &RawValue, index: usize) -> Option<&RawValue> {
    let all: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
    all.get(index).copied()
}

/// A fault at `pointer`.
pub fn fault(pointer: &str, detail: impl Into<String>) -> Fault {
    Fault { pointer: pointer.to_owned(), detail: detail.into() }
}

/// One field that was present.
pub struct Field<'a> {
    /// The value as it stood in the body.
    pub raw: &'a str,
    path: FieldPath,
    /// How it looks, if it is a string.
    looks: Looks,
    /// Where it stands, if it is an object or an array.
    within: Option<Place<'a>>,
}

impl<'a> Field<'a> {
    /// Records that this field is wrong.
    pub fn wrong(&self, faults: &mut Vec<Fault>, detail: impl Into<String>) {
        faults.push(fault(&self.path.pointer(), detail));
    }

    /// A string of any content.
    pub fn string(&self, faults: &mut Vec<Fault>) -> Option<String> {
        self.text(faults).map(Cow::into_owned)
    }

    /// A string of any content, borrowed where it has no escapes.
    pub fn text(&self, faults: &mut Vec<Fault>) -> Option<Cow<'a, str>> {
        let Some(inside) = self.raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
            self.wrong(faults, "must be a string");
            return None;
        };
        if !self.looks.is_escaped {
            return Some(Cow::Borrowed(inside));
        }
        let text = serde_json::from_str(self.raw).map(Cow::Owned).ok();
        if text.is_none() {
            self.wrong(faults, "must be a string of Unicode text; it has half a surrogate pair");
        }
        text
    }

    /// True for a string of printable ASCII without escapes: what it says is what stands there.
    pub fn is_plain(&self) -> bool {
        !self.looks.is_escaped && !self.looks.is_strange
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

    /// The elements of an array.
    pub fn array(&self, faults: &mut Vec<Fault>) -> Option<Vec<&'a RawValue>> {
        if !self.raw.starts_with('[') {
            self.wrong(faults, "must be an array");
            return None;
        }
        serde_json::from_str(self.raw).ok()
    }

    /// The elements of an array, each to be judged alone: their faults' pointers begin with them.
    pub fn items(&self, faults: &mut Vec<Fault>) -> Option<Vec<Field<'a>>> {
        let Some(place) = self.within.as_ref().filter(|_| self.raw.starts_with('[')) else {
            self.wrong(faults, "must be an array");
            return None;
        };
        Some(place.nodes.within(place.at).map(|at| place.field(at, FieldPath::default())).collect())
    }

    /// This field as an object.
    pub fn object(&self, faults: &mut Vec<Fault>) -> Option<Object<'a>> {
        match &self.within {
            Some(place) => Object::open_at(place.clone(), self.path, faults),
            None => {
                self.wrong(faults, "must be an object");
                None
            }
        }
    }
}

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
    if scan::has_special(text.as_bytes()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_and_brackets_in_strings_are_not() {
        assert_eq!(depth("{}"), 1);
        assert_eq!(depth(r#"{"a":[[],{"b":{}}],"c":"[[[[{\"[["}"#), 4);
        assert_eq!(depth("7"), 0);
    }

    #[test]
    fn numbers_are_spelled_as_everywhere() {
        let powers = (0..19).map(|n| 10_i64.pow(n));
        let all = powers.flat_map(|n| [n, n - 1, n + 1, -n, 7 * (n / 9)]).chain([i64::MIN, i64::MAX, 42]);
        for number in all.chain(-120..=120) {
            let mut out = String::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string());
        }
    }

    #[test]
    fn every_fault_is_named_by_its_pointer() {
        let raw = syntax(br#"{"a":1.5,"b/c":true,"d":"\ud800"}"#).unwrap();
        let mut faults = vec![];
        let mut body = Object::open(raw, &mut faults).unwrap();
        assert_eq!(body.take("a").unwrap().integer(0, 9, &mut faults), None);
        assert_eq!(body.take("d").unwrap().string(&mut faults), None);
        assert!(body.need("e", &mut faults).is_none());
        body.close(&mut faults);
        let at: Vec<_> = faults.iter().map(|f| f.pointer.as_str()).collect();
        assert_eq!(at, ["/a", "/d", "/e", "/b~1c"]);
    }

    #[test]
    fn of_a_repeated_name_the_last_counts_however_it_is_spelled() {
        let raw = syntax(r#" {"a":1, "b":[{"a":"}]"}], "\u0061":{"a":2} , "c":"x\\" } "#.as_bytes()).unwrap();
        let mut faults = vec![];
        let mut body = Object::open(raw, &mut faults).unwrap();
        assert_eq!(body.take("a").unwrap().raw, r#"{"a":2}"#);
        assert_eq!(body.take("b").unwrap().raw, r#"[{"a":"}]"}]"#);
        assert_eq!(body.take("c").unwrap().text(&mut faults).unwrap(), "x\\");
        assert!(body.take("d").is_none());
        body.close(&mut faults);
        let half = syntax(r#"{"\ud800":1}"#.as_bytes()).unwrap();
        assert!(faults.is_empty() && Object::open(half, &mut faults).is_none());
        assert!(faults[0].detail.starts_with("has a member name that cannot be read"), "{faults:?}");
    }

    #[test]
    fn only_what_is_not_json_is_a_syntax_error() {
        for bad in ["", " ", "{", "{\"a\":}", "{} x", "nul", "{\"a\":01}"] {
            assert!(matches!(syntax(bad.as_bytes()), Err(Refused::Syntax(_))), "{bad}");
        }
        assert!(matches!(syntax(b"\"\xff\""), Err(Refused::Syntax(_))));
        for good in ["1", "\"\\ud800\"", "{\"a\":1e999}", &"[".repeat(2000).add_close()] {
            assert!(syntax(good.as_bytes()).is_ok(), "{good}");
        }
    }

    trait AddClose {
        fn add_close(&self) -> String;
    }
    impl AddClose for String {
        fn add_close(&self) -> String {
            format!("{self}{}", "]".repeat(self.len()))
        }
    }

    #[test]
    fn white_space_goes_only_between_tokens() {
        assert_eq!(minified("{ \"a b\\\" \" :\n[1, 2] }"), "{\"a b\\\" \":[1,2]}");
    }
}
