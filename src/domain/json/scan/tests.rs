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
                let name = nodes.name(text, at).into_owned();
                let plain = nodes.plain_name(text, at);
                assert!(plain.is_none_or(|plain| plain == name.as_bytes()));
                assert_eq!(plain.is_none(), serde_json::to_string(&name).unwrap().contains('\\'));
                (name, read(nodes, text, at))
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
    fn json_is_recognized_as_a_parser_does(text in "[{}\\[\\],:\" \\\\au0-9.eE+-]{0,12}") {
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

#[test]
fn of_a_text_with_very_many_values_none_is_remembered_and_where_it_ends_is_known() {
    let many = "[[],{\"a\":7}, ".repeat(400_000);
    let text = format!("{many}1{}", "]".repeat(400_000));
    let nodes = Nodes::of(&text).unwrap();
    assert!(nodes.too_many && nodes.all.capacity() == 0);
    assert!(Nodes::of(&text[..text.len() - 1]).is_none() && Nodes::of(&format!("{text}]")).is_none());
    let mut seen = vec![];
    let list = format!("{{\"l\":[1,{text},[2]]}}");
    let (beside, len) = Nodes::of_list(&list, "l", |index, nodes| {
        seen.push((index, nodes.too_many, nodes.all.len()));
        assert!(nodes.all.capacity() <= VALUES_MAX);
    })
    .unwrap();
    assert_eq!((beside.all.len(), len), (2, Some(3)));
    assert_eq!(seen, [(0, false, 1), (1, true, 0), (2, false, 2)]);
    // Beside the list there is no room for so much.
    assert!(Nodes::of_list(&format!("{{\"l\":[],\"m\":{text}}}"), "l", |_, _| {}).is_none());
    let fits = format!("[{}1]", "1,".repeat(VALUES_MAX - 2));
    assert!(!Nodes::of(&fits).unwrap().too_many);
}
