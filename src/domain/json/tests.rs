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
    let raw = syntax(br#"{"a":1.5,"b/c":true,"d":1}"#).unwrap();
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
    assert!(faults.is_empty(), "{faults:?}");
    let half = syntax(r#"{"\ud800":"a\udc00\ud83d"}"#.as_bytes()).unwrap();
    let mut body = Object::open(half, &mut faults).unwrap();
    assert_eq!(body.take("\u{FFFD}").unwrap().text(&mut faults).unwrap(), "a\u{FFFD}\u{FFFD}");
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
    fn taken_members_are_those_a_parser_keeps(
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
fn pointers_lead_from_the_body_or_from_the_item_of_a_list_to_what_is_wrong() {
    let body =
        br#"{"gifts":[{"u\u0073er":{"id":7,"more":{"x~":{}}}},{"user":{"name":"n"}}],"other":{"a":{}}}"#;
    let judge = |mut item: Object<'_>, faults: &mut Vec<Fault>| {
        let mut user = item.take("user").unwrap().object(faults).unwrap();
        user.need("id", faults).and_then(|id| id.text(faults));
        if let Some(more) = user.take("more") {
            more.wrong(faults, "");
            more.object(faults).unwrap().close(faults);
        }
        user.close(faults);
    };
    let wanted = ["/user/id", "/user/more", "/user/more/x~0", "/user/id", "/user/name"];
    let pointers = |faults: &[Fault]| faults.iter().map(|fault| fault.pointer.clone()).collect::<Vec<_>>();
    let mut faults = vec![];
    let mut object = Object::open(Json::read(body).unwrap(), &mut faults).unwrap();
    for item in object.take("gifts").unwrap().items(2, &mut faults).unwrap() {
        judge(item.object(&mut faults).unwrap(), &mut faults);
    }
    assert_eq!(pointers(&faults), wanted);
    object.take("other").unwrap().object(&mut faults).unwrap().need("b", &mut faults);
    assert_eq!(faults.pop().unwrap().pointer, "/other/b");
    faults.clear();
    let read = read_list(body, "gifts", |_, item| judge(item.object(&mut faults).unwrap(), &mut faults));
    assert_eq!(read, Err(Refused::Invalid(vec![fault("/other", "unknown field \"other\"; remove it")])));
    assert_eq!(pointers(&faults), wanted);
    assert!(Object::open(Json::read(b"[{}]").unwrap(), &mut faults).is_none());
    assert_eq!(faults.pop(), Some(fault("", "must be an object")));
}

/// The elements that were kept of a list, as numbers; an object is -1.
fn numbers(body: &str) -> Result<Vec<i64>, Refused> {
    let mut found = vec![];
    let len = read_list(body.as_bytes(), "l\u{e4}", |index, item| {
        found.truncate(index);
        let object = item.0.raw().starts_with('{');
        found.push(if object { -1 } else { item.0.raw().parse().unwrap() });
    })?;
    assert_eq!(found[..len].len(), len);
    found.truncate(len);
    Ok(found)
}

#[test]
fn a_list_is_read_element_by_element_and_of_a_repeated_one_the_last_counts() {
    for (body, wanted) in [
        (r#"{"lä":[]}"#, vec![]),
        (r#" { "lä" : [ 1 , {"a":[7]}, 2 ] } "#, vec![1, -1, 2]),
        (r#"{"lä":[1,2],"l\u00e4":[3]}"#, vec![3]),
        (r#"{"lä":"x","lä":[4]}"#, vec![4]),
    ] {
        assert_eq!(numbers(body), Ok(wanted), "{body}");
    }
    for (body, pointer, detail) in [
        ("[1]", "", "must be an object"),
        ("{}", "/lä", "is required"),
        (r#"{"lä":[1],"lä":{}}"#, "/lä", "must be an array"),
        (r#"{"lä":[1],"x":[2]}"#, "/x", "unknown field \"x\"; remove it"),
    ] {
        assert_eq!(numbers(body), Err(Refused::Invalid(vec![fault(pointer, detail)])), "{body}");
    }
    for body in
        ["", "{\"lä\":[1,]}", "{\"lä\":[1 2]}", "{\"lä\":[1]", "{\"lä\":[1]}x", "{\"lä\":[1],}", "{\"lä\":[}"]
    {
        assert!(matches!(numbers(body), Err(Refused::Syntax(_))), "{body}");
        assert!(syntax(body.as_bytes()).is_err(), "{body}");
    }
}

/// What is said about a body of which nobody takes a field but `user`.
fn said_of(body: &str) -> Vec<Fault> {
    let mut faults = vec![];
    if let Some(mut body) = Object::open(Json::read(body.as_bytes()).unwrap(), &mut faults) {
        body.take("user");
        body.close(&mut faults);
    }
    faults
}

#[test]
fn of_many_unknown_fields_the_first_are_named_and_of_too_many_none() {
    let of = |count: usize| {
        let members: Vec<_> = (0..count).map(|n| format!("\"usr{n}\":{{\"a\":[]}}")).collect();
        said_of(&format!("{{{}}}", members.join(",")))
    };
    assert_eq!(of(UNKNOWN_MAX).len(), UNKNOWN_MAX);
    let said = of(MEMBERS_MAX);
    assert_eq!(said.len(), UNKNOWN_MAX + 1);
    assert_eq!(said[0], fault("/usr0", "unknown field \"usr0\"; did you mean \"user\"?"));
    assert_eq!(said.last(), Some(&fault("", "has 48 more unknown fields; remove them")));
    let refused = fault("", "has more than 64 members; send only fields that are documented");
    for count in [MEMBERS_MAX + 1, 1000] {
        assert_eq!(of(count), std::slice::from_ref(&refused), "{count}");
    }
    let refused = fault("", "has more than 4096 values; send only fields that are documented");
    assert_eq!(of(90_000), [refused]);
}

#[test]
fn a_long_name_is_cut_in_what_is_said_about_it() {
    for name in ["user".repeat(250_000), "é".repeat(500_000), "\\u0041".repeat(170_000)] {
        let said = said_of(&format!("{{\"{name}\":1}}"));
        assert_eq!((said.len(), said[0].pointer.as_str()), (1, ""));
        assert!(said[0].detail.len() < 200 && said[0].detail.contains(" bytes that begins "), "{said:?}");
    }
    assert_eq!(said_of(&format!("{{\"{}\":1}}", "x".repeat(64)))[0].pointer.len(), 65);
}

#[test]
fn a_list_that_is_too_long_is_refused_and_says_how_long_it_is() {
    let (mut faults, text) = (vec![], format!("{{\"a\":[{}1]}}", "1,".repeat(3000)));
    let mut body = Object::open(Json::read(text.as_bytes()).unwrap(), &mut faults).unwrap();
    let field = body.take("a").unwrap();
    assert_eq!(field.items(3001, &mut faults).unwrap().len(), 3001);
    assert!(faults.is_empty() && field.items(3000, &mut faults).is_none());
    assert_eq!(faults, [fault("/a", "must have at most 3000 items; it has 3001")]);
    assert_eq!(first_faults(vec![fault("/a", "b"); 9], 9).len(), 9);
    let last = first_faults(vec![fault("/a", "b"); 9], 2).pop().unwrap();
    assert_eq!(last.detail, "7 more things are wrong; fix these first");
}
