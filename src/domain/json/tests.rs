use proptest::prelude::*;

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

/// Names that are one another's beginnings, or are spelled otherwise.
const NAMES: [(&str, &[&str]); 8] = [
    ("a", &["a", "\\u0061"]),
    ("ab", &["ab", "a\\u0062"]),
    ("ba", &["ba"]),
    ("", &[""]),
    ("é", &["é", "\\u00e9"]),
    ("\"", &["\\\""]),
    ("i", &["i"]),
    ("q", &["q", "\\u0071"]),
];

proptest! {
    #[test]
    fn what_is_taken_is_what_a_parser_keeps_and_what_is_left_is_unknown(
        members in prop::collection::vec((0..NAMES.len(), any::<prop::sample::Index>(), 0..9_u64), 0..14),
        asked in prop::collection::vec(0..NAMES.len(), 0..6),
    ) {
        let spelled = members.iter().map(|(name, how, value)| format!("\"{}\" : {value}", how.get(NAMES[*name].1)));
        let text = format!("{{{}}}", spelled.collect::<Vec<_>>().join(","));
        let mut kept: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
        let (mut faults, mut wrong) = (vec![], vec![]);
        let mut body = Object::open(Json::read(text.as_bytes()).unwrap(), &mut faults).unwrap();
        for name in asked.into_iter().map(|n| NAMES[n].0) {
            let taken = body.take(name).map(|field| {
                field.wrong(&mut wrong, "");
                field.integer(0, 9, &mut faults).unwrap()
            });
            prop_assert_eq!(taken, kept.remove(name).and_then(|value| value.as_u64()));
            prop_assert_eq!(wrong.pop().map(|fault| fault.pointer), taken.map(|_| super::spelled(name)));
        }
        prop_assert!(faults.is_empty());
        body.close(&mut faults);
        let mut left: Vec<String> = faults.into_iter().map(|fault| fault.pointer).collect();
        left.sort();
        let mut unknown: Vec<String> = kept.keys().map(|name| super::spelled(name)).collect();
        unknown.sort();
        prop_assert_eq!(left, unknown);
    }
}

#[test]
fn pointers_lead_from_the_body_or_from_the_item_of_an_array_to_what_is_wrong() {
    let text = br#"[{"u\u0073er":{"id":7,"more":{"x~":{}}}},{"user":{"name":"n"}}]"#;
    let mut faults = vec![];
    let body =
        br#"{"gifts":[{"u\u0073er":{"id":7,"more":{"x~":{}}}},{"user":{"name":"n"}}],"other":{"a":{}}}"#;
    let mut object = Object::open(Json::read(body).unwrap(), &mut faults).unwrap();
    for item in object.take("gifts").unwrap().items(&mut faults).unwrap() {
        let mut item = item.object(&mut faults).unwrap();
        let mut user = item.take("user").unwrap().object(&mut faults).unwrap();
        user.need("id", &mut faults).and_then(|id| id.text(&mut faults));
        if let Some(more) = user.take("more") {
            more.wrong(&mut faults, "");
            more.object(&mut faults).unwrap().close(&mut faults);
        }
        user.close(&mut faults);
    }
    object.take("other").unwrap().object(&mut faults).unwrap().need("b", &mut faults);
    let at: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(at, ["/user/id", "/user/more", "/user/more/x~0", "/user/id", "/user/name", "/other/b"]);
    assert!(Object::open(Json::read(text).unwrap(), &mut faults).is_none());
    assert_eq!(faults.pop(), Some(fault("", "must be an object")));
}
