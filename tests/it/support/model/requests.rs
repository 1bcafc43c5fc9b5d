//! The oracle's signed requests.

use std::collections::hash_map::Entry;

use tipcast::domain::Millis;
use tipcast::engine::{REQUEST_KEPT_MS, RequestStore, RequestUse, Wait};

use super::Model;

impl RequestStore for Model {
    fn claim_request<'a>(&'a self, request: &'a str, target: &'a str, now: Millis) -> Wait<'a, RequestUse> {
        let mut all = self.requests.lock().unwrap();
        all.retain(|_, (_, at)| now.since(*at) < REQUEST_KEPT_MS);
        let told = match all.entry(request.to_owned()) {
            Entry::Vacant(place) => {
                place.insert((target.to_owned(), now));
                RequestUse::First
            }
            Entry::Occupied(known) if known.get().0 == target => RequestUse::Again(now.since(known.get().1)),
            Entry::Occupied(_) => RequestUse::Elsewhere,
        };
        Box::pin(std::future::ready(Ok(told)))
    }
}
