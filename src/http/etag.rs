//! Entity tags: does the client have this already?

use actix_web::http::header::IfNoneMatch;
use actix_web::{HttpMessage, HttpRequest};

/// True when `If-None-Match` names `tag` (given without quotes), or is `*`. Weak comparison, as
/// RFC 9110 section 13.1.2 wants for GET and HEAD.
pub(super) fn matches(req: &HttpRequest, tag: &str) -> bool {
    match req.get_header::<IfNoneMatch>() {
        Some(IfNoneMatch::Any) => true,
        Some(IfNoneMatch::Items(known)) => known.iter().any(|known| known.tag() == tag),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::IF_NONE_MATCH;
    use actix_web::test::TestRequest;

    fn asked(value: &str) -> bool {
        matches(&TestRequest::default().insert_header((IF_NONE_MATCH, value)).to_http_request(), "e:7")
    }

    #[test]
    fn one_tag_a_list_a_weak_tag_and_a_star_match() {
        for yes in ["\"e:7\"", "W/\"e:7\"", "\"a\", \"e:7\"", "\"a\",W/\"e:7\" , \"z\"", "*"] {
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
