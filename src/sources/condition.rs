//! Conditions on a body: which event it is, and what of it may be shown.

use serde::Deserialize;

use super::amount::Decimal;
use super::body::Node;

/// One condition: the value at a pointer is, or is not, one of these. Nothing at the pointer is `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// A JSON pointer.
    pub pointer: String,
    /// It is this.
    pub equals: Option<Scalar>,
    /// It is one of these.
    pub one_of: Option<Vec<Scalar>>,
    /// It is none of these.
    pub none_of: Option<Vec<Scalar>>,
    /// It is there and not null, or (false) is not.
    pub present: Option<bool>,
}

/// A simple value of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// True or false.
    Bool(bool),
    /// An integer, as presets write it.
    Integer(i64),
    /// A string.
    Text(String),
    /// Any other number, as it was written, or null.
    #[serde(skip)]
    Raw(String),
}

impl Scalar {
    /// Reads what `"equals"` of a source's settings says; none for objects and arrays.
    pub fn read(raw: &str) -> Option<Scalar> {
        match raw.as_bytes().first()? {
            b'{' | b'[' => None,
            b'"' => serde_json::from_str(raw).ok().map(Scalar::Text),
            b't' => Some(Scalar::Bool(true)),
            b'f' => Some(Scalar::Bool(false)),
            _ => Some(Scalar::Raw(raw.to_owned())),
        }
    }

    fn is(&self, node: Option<Node<'_>>) -> bool {
        let raw = node.map_or("null", Node::raw);
        match self {
            Scalar::Bool(value) => raw == if *value { "true" } else { "false" },
            Scalar::Text(text) => raw.starts_with('"') && node.and_then(Node::text).as_ref() == Some(text),
            Scalar::Integer(number) => same_number(&number.to_string(), raw),
            Scalar::Raw(text) => text == raw || same_number(text, raw),
        }
    }
}

/// `1`, `1.0` and `1e0` are the same number. Of negative ones the same text is.
fn same_number(a: &str, b: &str) -> bool {
    let number = |text: &str| Decimal::parse(text).ok();
    a == b || (!b.starts_with('"') && number(a).is_some() && number(a) == number(b))
}

/// Whether every condition holds.
pub fn all(conditions: &[Condition], root: Node<'_>) -> bool {
    conditions.iter().all(|condition| condition.holds(root))
}

impl Condition {
    fn holds(&self, root: Node<'_>) -> bool {
        let node = root.at(&self.pointer);
        let is = |scalar: &Scalar| scalar.is(node);
        let there = node.is_some_and(|node| node.raw() != "null");
        self.equals.as_ref().is_none_or(is)
            && self.one_of.as_ref().is_none_or(|these| these.iter().any(is))
            && self.none_of.as_ref().is_none_or(|these| !these.iter().any(is))
            && self.present.is_none_or(|wanted| wanted == there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_holds_for_the_same_value_of_the_same_kind() {
        let root = Node::parse(r#"{"a":"paid","b":true,"c":1.0,"d":null,"e":"1"}"#).unwrap();
        let holds = |pointer: &str, equals: &str| {
            let equals = Scalar::read(equals);
            Condition { pointer: pointer.into(), equals, ..Condition::default() }.holds(root)
        };
        for (pointer, equals) in
            [("/a", "\"paid\""), ("/b", "true"), ("/c", "1"), ("/c", "10e-1"), ("/d", "null"), ("/x", "null")]
        {
            assert!(holds(pointer, equals), "{pointer} {equals}");
        }
        for (pointer, equals) in [
            ("/a", "\"unpaid\""),
            ("/b", "\"true\""),
            ("/b", "false"),
            ("/c", "2"),
            ("/e", "1"),
            ("/x", "\"\""),
        ] {
            assert!(!holds(pointer, equals), "{pointer} {equals}");
        }
    }
}
