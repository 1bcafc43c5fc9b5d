//! The oracle's signed requests.

use std::collections::hash_map::Entry;

use tipcast::domain::Millis;
use tipcast::engine::{REQUEST_KEPT_MS, RequestUse};

use super::Model;

impl Model {
    pub(crate) fn claim_request(&self, request: &str, target: &str, now: Millis) -> RequestUse {
        let mut all = self.requests.lock().unwrap();
        all.retain(|_, (_, at)| now.since(*at) < REQUEST_KEPT_MS);
        match all.entry(request.to_owned()) {
            Entry::Vacant(place) => {
                place.insert((target.to_owned(), now));
                RequestUse::First
            }
            Entry::Occupied(known) if known.get().0 == target => RequestUse::Again(now.since(known.get().1)),
            Entry::Occupied(_) => RequestUse::Elsewhere,
        }
    }
}
