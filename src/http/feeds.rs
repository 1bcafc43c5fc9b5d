//! `GET /v1/feeds`: the feeds that there are, for those who run the gateway.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::answers::{self, FeedList};
use super::problem::{ApiError, invalid};
use super::{Gate, caller_of, integer_within};
use crate::auth::Scope;
use crate::domain::{FeedId, Millis};
use crate::engine::NameRange;

/// Feeds of one answer: at most, and when the query does not say.
const FEEDS_PER_PAGE: (usize, usize) = (1_000, 100);

/// Which feeds are asked for.
struct Query {
    prefix: String,
    after: Option<FeedId>,
    limit: usize,
}

/// `GET /v1/feeds?prefix=&after=&limit=`
pub(super) async fn list(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let Query { prefix, after, limit } = read_query(&req)?;
    let caller = caller_of(&req);
    let ranges = match caller.identity.key() {
        Some(key) => ranges(&key.feeds, &prefix),
        None => ranges(&Scope::everything(), &prefix),
    };
    let page = gate.read(gate.store.list_feeds(&ranges, after.as_ref(), limit, Millis::now())).await?;
    Ok(answers::fresh(StatusCode::OK, &FeedList::from(page)))
}

/// The names that begin with `prefix` and are in `scope`.
fn ranges(scope: &Scope, prefix: &str) -> Vec<NameRange> {
    let range = |(name, is_whole): (&str, bool)| match (name.starts_with(prefix), prefix.starts_with(name)) {
        (true, _) => Some(NameRange { begins: name.to_owned(), is_whole }),
        (false, true) if !is_whole => Some(NameRange { begins: prefix.to_owned(), is_whole: false }),
        _ => None,
    };
    scope.names().filter_map(range).collect()
}

fn read_query(req: &HttpRequest) -> Result<Query, ApiError> {
    let mut query = Query { prefix: String::new(), after: None, limit: FEEDS_PER_PAGE.1 };
    for (name, value) in url::form_urlencoded::parse(req.query_string().as_bytes()) {
        match &*name {
            "prefix" => {
                let fits = value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
                if !fits || value.len() > 64 {
                    return Err(invalid("prefix must be the beginning of a feed's name"));
                }
                query.prefix = value.into_owned();
            }
            "after" => {
                let after =
                    value.parse().map_err(|_| invalid("after must be the `next` of the page before"))?;
                query.after = Some(after);
            }
            "limit" => query.limit = integer_within(&name, &value, 1..=FEEDS_PER_PAGE.0)?,
            _ => {}
        }
    }
    Ok(query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_the_names_that_the_key_covers_and_the_query_asks_for() {
        let scope = Scope::parse(["show-*", "lobby"]).unwrap();
        let of = |prefix| {
            ranges(&scope, prefix).into_iter().map(|it| (it.begins, it.is_whole)).collect::<Vec<_>>()
        };
        assert_eq!(of(""), [("show-".to_owned(), false), ("lobby".to_owned(), true)]);
        assert_eq!(of("sh"), [("show-".to_owned(), false)]);
        assert_eq!(of("show-7"), [("show-7".to_owned(), false)]);
        assert_eq!(of("lob"), [("lobby".to_owned(), true)]);
        assert!(of("lobby2").is_empty() && of("other").is_empty());
        assert_eq!(ranges(&Scope::everything(), "").len(), 1);
    }
}
