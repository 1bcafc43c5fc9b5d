//! docs/PROTOCOL.md as HTML: `docs/protocol.html`, which is served, is what this makes of it. A file, so that no build of the
//! gateway has to read Markdown.

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// A heading that the contents list.
pub(super) struct Heading {
    /// Its name in an address.
    pub(super) id: String,
    /// As it reads.
    pub(super) text: String,
}

/// What a page needs of a document.
pub(super) struct Document {
    /// Those of the second level.
    pub(super) headings: Vec<Heading>,
    /// Everything, title included; holds no markup but what Markdown makes.
    pub(super) html: String,
}

/// Reads Markdown with tables. Headings get the ids that links in the document use, which are GitHub's. Links to other
/// files, which a gateway does not serve, become their text.
pub(super) fn document(text: &str) -> Document {
    let mut events: Vec<Event<'_>> = Parser::new_ext(text, Options::ENABLE_TABLES).map(plain).collect();
    let mut headings = Vec::new();
    for at in 0..events.len() {
        let Event::Start(Tag::Heading { level, .. }) = &events[at] else { continue };
        let level = *level;
        let inside = events[at + 1..].iter().take_while(|it| !matches!(it, Event::End(TagEnd::Heading(_))));
        let text: String = inside
            .filter_map(|it| match it {
                Event::Text(part) | Event::Code(part) => Some(part.as_ref()),
                _ => None,
            })
            .collect();
        let id = slug(&text);
        if let Event::Start(Tag::Heading { id: place, .. }) = &mut events[at] {
            *place = Some(id.clone().into());
        }
        if level == HeadingLevel::H2 {
            headings.push(Heading { id, text });
        }
    }
    let mut html = String::new();
    html::push_html(&mut html, without_dead_links(events).into_iter());
    Document { headings, html }
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
    for mut event in events {
        if let Event::Start(Tag::Link { dest_url, .. }) = &mut event {
            if dest_url.as_ref() == "asyncapi.yaml" {
                *dest_url = CowStr::Borrowed("/asyncapi.yaml");
            }
            dead = !dest_url.starts_with(['#', '/']);
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

/// The page that is served.
fn page(text: &str) -> String {
    let Document { headings, html } = document(text);
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let link = |it: &Heading| format!("<a href=\"#{}\">{}</a>\n", escaped(&it.id), escaped(&it.text));
    let contents: String = headings.iter().map(link).collect();
    let template = include_str!("../../../templates/protocol.html");
    template.replace("{{ contents }}", &contents).replace("{{ document }}", html.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With this variable set the file is written instead.
    const WRITE: &str = "TIPCAST_WRITE_OPENAPI";

    #[test]
    fn the_file_that_is_served_is_the_protocol_as_a_page() {
        let made = page(include_str!("../../../docs/PROTOCOL.md"));
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
    fn headings_get_the_names_that_links_use() {
        let made = document("# All\n\n## Private feeds, `tokens`\n\n### c\n\n[here](#private-feeds-tokens)");
        let listed: Vec<_> = made.headings.iter().map(|it| (it.id.as_str(), it.text.as_str())).collect();
        assert_eq!(listed, [("private-feeds-tokens", "Private feeds, tokens")]);
        assert!(
            made.html.contains("<h1 id=\"all\">") && made.html.contains("href=\"#private-feeds-tokens\"")
        );
    }

    #[test]
    fn markup_is_text_and_links_to_other_files_are_only_their_text() {
        let made = document(
            "<b>x</b> [**A** file](A.md) and [that](asyncapi.yaml)\n\n<script>1</script>\n\n|a|b|\n|---|---|\n|1|2|",
        );
        assert!(!made.html.contains("<b>") && !made.html.contains("<script>"), "{}", made.html);
        assert!(
            made.html.contains("<strong>A</strong> file and <a href=\"/asyncapi.yaml\">"),
            "{}",
            made.html
        );
        assert!(made.html.contains("<td>1</td>") && !made.html.contains("style="), "{}", made.html);
    }
}
