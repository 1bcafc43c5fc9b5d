//! The body of a delivery: JSON, or a form with JSON in one field; and values in it, by JSON pointers.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::Refusal;
use crate::domain::json;

/// The form of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON.
    Json,
    /// `application/x-www-form-urlencoded`, with JSON in the field of this name.
    Field(String),
}

/// The JSON text of a body.
pub fn open<'a>(form: &Form, body: &'a [u8]) -> Result<Cow<'a, str>, Refusal> {
    match form {
        Form::Json => match std::str::from_utf8(body) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(e) => Err(Refusal::Unreadable(format!("the body is not UTF-8 at byte {}", e.valid_up_to()))),
        },
        Form::Field(name) => {
            let found = url::form_urlencoded::parse(body).find(|(field, _)| field == name);
            let Some((_, text)) = found else {
                let why = format!("the body is no form with a field {name:?}");
                return Err(Refusal::Unreadable(why));
            };
            Ok(Cow::Owned(text.into_owned()))
        }
    }
}

/// A value somewhere in a JSON text, unread: numbers stay the text that they are.
#[derive(Clone, Copy)]
pub struct Node<'a>(&'a RawValue);

impl<'a> Node<'a> {
    /// The whole of a JSON text.
    pub fn parse(text: &'a str) -> Result<Node<'a>, Refusal> {
        match json::syntax(text.as_bytes()) {
            Ok(raw) => Ok(Node(raw)),
            Err(json::Refused::Syntax(why)) => {
                Err(Refusal::Unreadable(format!("the body is not JSON: {why}")))
            }
            Err(json::Refused::Invalid(_)) => Err(Refusal::Unreadable("the body is not JSON".into())),
        }
    }

    /// The value at a JSON pointer (RFC 6901), if there is one.
    pub fn at(self, pointer: &str) -> Option<Node<'a>> {
        let mut raw = self.0;
        for step in pointer.split('/').skip(1) {
            let name = match step.contains('~') {
                true => Cow::Owned(step.replace("~1", "/").replace("~0", "~")),
                false => Cow::Borrowed(step),
            };
            raw = match raw.get().as_bytes().first() {
                Some(b'{') => json::member(raw, &name)?,
                Some(b'[') => {
                    let plain = name.len() == 1 || !name.starts_with('0');
                    let index = name.bytes().all(|b| b.is_ascii_digit()).then(|| name.parse().ok());
                    json::element(raw, index.flatten().filter(|_| plain)?)?
                }
                _ => return None,
            };
        }
        Some(Node(raw))
    }

    /// The value as the JSON text has it.
    pub fn raw(self) -> &'a str {
        self.0.get()
    }

    /// The content of a string, or the text of a number; none for anything else.
    pub fn text(self) -> Option<String> {
        let raw = self.raw();
        match raw.as_bytes().first()? {
            b'"' => json::read_string(raw),
            b'-' | b'0'..=b'9' => Some(raw.to_owned()),
            _ => None,
        }
    }
}

/// Whether a text is a JSON pointer.
pub fn is_pointer(text: &str) -> bool {
    let escapes_end = |rest: &str| rest.starts_with(['0', '1']);
    (text.is_empty() || text.starts_with('/')) && text.split('~').skip(1).all(escapes_end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pointers_find_what_the_standard_says() {
        // The examples of RFC 6901, section 5, and arrays.
        let text = r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,"deep":{"x":[{"y":null}]}}"#;
        let root = Node::parse(text).unwrap();
        for (pointer, raw) in [
            ("/foo/0", "\"bar\""),
            ("/foo/1", "\"baz\""),
            ("/", "0"),
            ("/a~1b", "1"),
            ("/c%d", "2"),
            ("/e^f", "3"),
            ("/g|h", "4"),
            ("/i\\j", "5"),
            ("/k\"l", "6"),
            ("/ ", "7"),
            ("/m~0n", "8"),
            ("/deep/x/0/y", "null"),
        ] {
            assert_eq!(root.at(pointer).map(Node::raw), Some(raw), "{pointer}");
        }
        assert_eq!(root.at("").unwrap().raw(), text);
        for nothing in ["/nope", "/foo/2", "/foo/00", "/foo/-", "/foo/x", "/foo/0/x", "/a/b", "/deep/x/0/y/z"]
        {
            assert!(root.at(nothing).is_none(), "{nothing}");
        }
    }

    #[test]
    fn numbers_stay_the_text_that_they_are() {
        let root =
            Node::parse(r#"{"a":3.00,"b":1e400,"c":"5.50","d":true,"e":12345678901234567890.12}"#).unwrap();
        assert_eq!(root.at("/a").unwrap().text().as_deref(), Some("3.00"));
        assert_eq!(root.at("/b").unwrap().text().as_deref(), Some("1e400"));
        assert_eq!(root.at("/c").unwrap().text().as_deref(), Some("5.50"));
        assert_eq!(root.at("/d").unwrap().text(), None);
        assert_eq!(root.at("/e").unwrap().text().as_deref(), Some("12345678901234567890.12"));
    }

    #[test]
    fn of_a_repeated_name_the_last_counts() {
        assert_eq!(Node::parse(r#"{"a":1,"a":2}"#).unwrap().at("/a").unwrap().raw(), "2");
    }

    #[test]
    fn half_an_emoji_costs_only_itself() {
        let read = |text: &str| Node::parse(text).unwrap().text().unwrap();
        assert_eq!(read(r#""a\ud83db""#), "a\u{fffd}b");
        assert_eq!(read(r#""\udc00\ud83d\ude00\\ud83d\ud83d""#), "\u{fffd}😀\\ud83d\u{fffd}");
        assert_eq!(read(r#""ü\ud83d\n""#), "ü\u{fffd}\n");
    }

    #[test]
    fn a_form_gives_its_field() {
        let form = Form::Field("data".into());
        assert_eq!(open(&form, b"x=1&data=%7B%22a%22%3A%22b+c%22%7D").unwrap(), r#"{"a":"b c"}"#);
        assert!(matches!(open(&form, b"{\"a\":1}"), Err(Refusal::Unreadable(_))));
        assert!(matches!(open(&Form::Json, b"\xff"), Err(Refusal::Unreadable(_))));
    }

    #[test]
    fn only_pointers_are_pointers() {
        for good in ["", "/", "/a/0", "/m~0n~1"] {
            assert!(is_pointer(good), "{good}");
        }
        for bad in ["a", "a/b", "/~", "/~2", "#/a"] {
            assert!(!is_pointer(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_string_that_serde_reads_is_read_the_same(text in any::<String>()) {
            let spelled = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(json::whole_surrogates(&spelled), spelled.clone());
            prop_assert_eq!(Node::parse(&spelled).unwrap().text(), Some(text));
        }

        #[test]
        fn any_run_of_escapes_is_a_readable_string(units in prop::collection::vec(any::<u16>(), 0..12)) {
            let inside: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let expected = String::from_utf16_lossy(&units);
            let spelled = format!("\"{inside}\"");
            prop_assert_eq!(Node::parse(&spelled).unwrap().text(), Some(expected));
        }
    }
}
