//! Pages with gaps: where a file of `templates` has `{{ name }}`, a value goes. Few pages have few of them, so they are
//! filled when a page is asked for, which spares a build what it takes to compile templates.

use super::words::Words;

/// What goes into a gap.
pub(super) enum Filling<'a> {
    /// A value, which cannot become markup.
    Text(&'a str),
    /// Markup of ours.
    Markup(String),
}

use Filling::{Markup, Text};

/// A page whose gaps are filled: `{{ words.claim }}` with a word of its language, others with what has their name. Gaps of
/// which nothing is known stay empty: a test fills all there are.
pub(super) fn fill(page: &str, words: &Words, others: &[(&str, Filling<'_>)]) -> String {
    let mut filled = String::with_capacity(page.len() * 2);
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("{{ ") {
        filled.push_str(before);
        let Some((name, behind)) = after.split_once(" }}") else { break };
        rest = behind;
        let word = name.strip_prefix("words.").and_then(|name| words.get(name)).map(Text);
        let other = others.iter().find(|(known, _)| *known == name);
        match word.as_ref().or(other.map(|(_, filling)| filling)) {
            Some(Text(text)) => push_text(&mut filled, text),
            Some(Markup(markup)) => filled.push_str(markup),
            None => debug_assert!(false, "nothing is known to fill {name} with"),
        }
    }
    filled.push_str(rest);
    filled
}

/// Text as it stands in a page, also in an attribute.
fn push_text(page: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => page.push_str("&#38;"),
            '<' => page.push_str("&#60;"),
            '>' => page.push_str("&#62;"),
            '"' => page.push_str("&#34;"),
            '\'' => page.push_str("&#39;"),
            c => page.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::pages::words::EN;

    #[test]
    fn a_value_is_text_whatever_it_holds_and_markup_is_ours() {
        let page = "<p title=\"{{ a }}\">{{ b }}{{ words.lang }}</p>{{ a }}";
        let others = [("a", Text("\"><b>&'")), ("b", Markup("<i>{{ a }}</i>".into()))];
        assert_eq!(
            fill(page, &EN, &others),
            "<p title=\"&#34;&#62;&#60;b&#62;&#38;&#39;\"><i>{{ a }}</i>en</p>&#34;&#62;&#60;b&#62;&#38;&#39;"
        );
    }

    #[test]
    #[should_panic(expected = "nothing is known to fill words.nonsense with")]
    fn a_gap_that_nobody_fills_is_found_by_the_tests() {
        fill("{{ words.nonsense }}", &EN, &[]);
    }
}
