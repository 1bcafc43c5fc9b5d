//! Entity tags: does the client have this already?

use actix_web::HttpRequest;
use actix_web::http::header::IF_NONE_MATCH;

/// True when `If-None-Match` names `tag` (given without quotes), or is `*`. Weak comparison, as
/// RFC 9110 section 13.1.2 wants for GET and HEAD.
pub(super) fn matches(req: &HttpRequest, tag: &str) -> bool {
    let mut lists = req.headers().get_all(IF_NONE_MATCH).filter_map(|value| value.to_str().ok());
    lists.any(|list| list.trim() == "*" || names(list, tag))
}

/// Walks a list of entity tags; a comma inside the quotes belongs to the tag.
fn names(list: &str, tag: &str) -> bool {
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let opaque = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"');
        let Some((found, after)) = opaque.and_then(|quoted| quoted.split_once('"')) else {
            return false;
        };
        if found == tag {
            return true;
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    fn asked(value: &str) -> bool {
        matches(&TestRequest::default().insert_header((IF_NONE_MATCH, value)).to_http_request(), "e:7")
    }

    #[test]
    fn one_tag_a_list_a_weak_tag_and_a_star_match() {
        for yes in ["\"e:7\"", "W/\"e:7\"", "\"a\", \"e:7\"", "\"a,b\",W/\"e:7\" , \"z\"", "*", " * "] {
            assert!(asked(yes), "{yes}");
        }
    }

    #[test]
    fn other_tags_and_bad_lists_do_not() {
        for no in ["", "e:7", "\"e:70\"", "\"e:7", "w/\"e:7\"", "\"a\" \"b\"", "\"\"", "\"x\", e:7"] {
            assert!(!asked(no), "{no}");
        }
    }
}
