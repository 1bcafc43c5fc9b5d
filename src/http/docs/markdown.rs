//! docs/PROTOCOL.md as HTML: `docs/protocol.html`, a part of the page `/docs`, is what this makes of it. A file, so that no
//! build of the gateway has to read Markdown.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// Reads Markdown with tables, as a section of a page. The title is its heading, what is before the first heading of the second
/// level its introduction, and each of these with what follows an article. Headings get the ids that links in the document use,
/// which are GitHub's; the title's is the caller's. Links to other files, which a gateway does not serve, become their text.
fn section(id: &str, text: &str) -> String {
    let mut events: Vec<Event<'_>> = Parser::new_ext(text, Options::ENABLE_TABLES).map(plain).collect();
    let mut articles = 0;
    let mut made = Vec::with_capacity(events.len());
    for at in 0..events.len() {
        let event = std::mem::replace(&mut events[at], Event::SoftBreak);
        match event {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let inside = &events[at + 1..];
                let id = if level == HeadingLevel::H1 { id.to_owned() } else { slug(&heading(inside)) };
                if level == HeadingLevel::H2 {
                    let end = if articles > 0 { "</article>\n" } else { "" };
                    made.push(Event::Html(format!("{end}<article id=\"{id}\">\n").into()));
                    articles += 1;
                }
                // An article's own heading has no id: the article has it.
                let id = (level != HeadingLevel::H2).then(|| id.into());
                made.push(Event::Start(Tag::Heading { level: lower(level), id, classes, attrs }));
            }
            Event::End(TagEnd::Heading(level)) => made.push(Event::End(TagEnd::Heading(lower(level)))),
            other => made.push(other),
        }
    }
    let mut html = String::new();
    html::push_html(&mut html, without_dead_links(made).into_iter());
    let end = if articles > 0 { "</article>\n" } else { "" };
    format!("<section>\n{}\n{end}</section>\n", html.trim_end())
}

/// The text of a heading, of what follows its start.
fn heading(inside: &[Event<'_>]) -> String {
    let parts = inside.iter().take_while(|it| !matches!(it, Event::End(TagEnd::Heading(_))));
    let text = |it: &'_ Event<'_>| match it {
        Event::Text(part) | Event::Code(part) => Some(part.to_string()),
        _ => None,
    };
    parts.filter_map(text).collect()
}

/// A page has a title of its own: what the document has is one lower.
fn lower(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H2,
        HeadingLevel::H2 => HeadingLevel::H3,
        _ => HeadingLevel::H4,
    }
}

/// Markup in the document is text.
fn plain(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        other => other,
    }
}

fn without_dead_links(events: Vec<Event<'_>>) -> Vec<Event<'_>> {
    let mut kept = Vec::with_capacity(events.len());
    // Links do not nest.
    let mut dead = false;
    for event in events {
        if let Event::Start(Tag::Link { dest_url, .. }) = &event {
            // Beside the page is only the one file that is served.
            dead = !dest_url.starts_with('#') && dest_url.as_ref() != "asyncapi.yaml";
            if dead {
                continue;
            }
        }
        if dead && matches!(event, Event::End(TagEnd::Link)) {
            dead = false;
            continue;
        }
        kept.push(event);
    }
    kept
}

/// The name of a heading: letters and digits in lower case, a hyphen for each space.
fn slug(text: &str) -> String {
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With this variable set the file is written instead.
    const WRITE: &str = "TIPCAST_WRITE_OPENAPI";

    #[test]
    fn the_file_that_is_served_is_the_protocol_as_a_section() {
        let made = section("live-protocol", include_str!("../../../docs/PROTOCOL.md"));
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/protocol.html"), &made).unwrap();
            return;
        }
        assert!(
            made == super::super::PROTOCOL,
            "docs/protocol.html is of another docs/PROTOCOL.md: `make openapi`"
        );
    }

    #[test]
    fn headings_get_the_names_that_links_use_and_those_of_the_second_level_are_articles() {
        let made = section(
            "it",
            "# All\n\none\n\n## Private feeds, `tokens`\n\n### c\n\n[here](#private-feeds-tokens)\n\n## d\n\ntwo",
        );
        let wanted = "<section>\n<h2 id=\"it\">All</h2>\n<p>one</p>\n<article id=\"private-feeds-tokens\">\n<h3>Private feeds, \
            <code>tokens</code></h3>\n<h4 id=\"c\">c</h4>\n<p><a href=\"#private-feeds-tokens\">here</a></p>\n</article>\n\
            <article id=\"d\">\n<h3>d</h3>\n<p>two</p>\n</article>\n</section>\n";
        assert_eq!(made, wanted);
    }

    #[test]
    fn markup_is_text_and_links_to_other_files_are_only_their_text() {
        let made = section(
            "it",
            "<b>x</b> [**A** file](A.md) and [that](asyncapi.yaml)\n\n<script>1</script>\n\n|a|b|\n|---|---|\n|1|2|",
        );
        assert!(!made.contains("<b>") && !made.contains("<script>"), "{}", made);
        assert!(made.contains("<strong>A</strong> file and <a href=\"asyncapi.yaml\">"), "{}", made);
        assert!(made.contains("<td>1</td>") && !made.contains("style="), "{}", made);
    }
}
