//! Reading a feed once.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use actix_web::http::header::{CACHE_CONTROL, ETAG};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;

use super::problem::ApiError;
use super::{Gate, caller_of, etag, feed_of};
use crate::domain::{FeedId, FeedList, Millis, Position, Visibility};
use crate::live::Shown;
use crate::live::frame::list_json;

/// `GET /v1/feeds/{feed}`
pub(super) async fn snapshot(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let may_see = || caller_of(&req).identity.may_see(feed.as_str(), Visibility::Private);
    // What a board shows is as new as what this node acknowledged: readers of a watched feed cost the store nothing.
    // A refusal comes only after the store was asked: sooner would show that it is watched.
    let shown = match gate.live.shown(&feed).filter(|shown| !shown.private || may_see().is_ok()) {
        Some(shown) => shown,
        None => {
            // A refusal reads no rows: it would cost more than an answer, and its time would reveal that there are some.
            if let Err(closed) = may_see()
                && gate.read(gate.store.read_policy(&feed)).await?.visibility == Visibility::Private
            {
                return Err(closed);
            }
            let read = gate.read(gate.store.read_snapshot(&feed, Millis::now())).await?;
            let (capacity, now) = (read.policy.capacity, read.now);
            let private = read.policy.visibility == Visibility::Private;
            let list = read.into_list();
            Shown { list: gate.lists.share(&feed, &list), at: list.at, capacity, now, private }
        }
    };
    // Before the tag is compared: that it is the same is for those who may see the list too.
    if shown.private {
        may_see()?;
    }
    let tag = shown.at.to_string();
    let known = etag::matches(&req, &tag);
    let mut answer = if known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    // What only some may see is not for caches that many share.
    let caching = if shown.private { "private, no-cache" } else { "no-cache" };
    answer.insert_header((ETAG, format!("\"{tag}\""))).insert_header((CACHE_CONTROL, caching));
    if known {
        return Ok(answer.finish());
    }
    Ok(answer.content_type("application/json").body(body(&feed, shown)))
}

/// The body: what this answer has of its own, and the list, whose bytes others share.
fn body(feed: &FeedId, shown: Shown) -> Parts {
    let Shown { at, list, capacity, now, .. } = shown;
    let head = format!(
        "{{\"feed\":\"{feed}\",\"epoch\":\"{}\",\"seq\":{},\"capacity\":{capacity},\"server_time\":\"{now}\",",
        at.epoch, at.seq
    );
    Parts([head.into(), list, Bytes::from_static(b"}")])
}

/// A body of several pieces.
struct Parts([Bytes; 3]);

impl MessageBody for Parts {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.0.iter().map(|part| part.len() as u64).sum())
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let next = self.get_mut().0.iter_mut().find(|part| !part.is_empty());
        Poll::Ready(next.map(|part| Ok(std::mem::take(part))))
    }
}

/// The lists of feeds that nobody watches, for as long as somebody is being sent them: all who are sent the same one
/// share its bytes.
#[derive(Default)]
pub(super) struct ListTexts(Mutex<HashMap<FeedId, (Position, Weak<ListText>)>>);

struct ListText(String);

impl AsRef<[u8]> for ListText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl ListTexts {
    /// The list's text. A position means one list.
    fn share(&self, feed: &FeedId, list: &FeedList) -> Bytes {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = texts.get(feed).filter(|(at, _)| *at == list.at).and_then(|(_, text)| text.upgrade());
        let text = known.unwrap_or_else(|| {
            let text = Arc::new(ListText(list_json(list)));
            if texts.len() == texts.capacity() {
                texts.retain(|_, (_, text)| text.strong_count() > 0);
            }
            texts.insert(feed.clone(), (list.at.clone(), Arc::downgrade(&text)));
            text
        });
        drop(texts);
        Bytes::from_owner(SharedText(text))
    }
}

/// Keeps a text for as long as its bytes are used.
struct SharedText(Arc<ListText>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref().as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_share_bytes_and_are_dropped_afterwards() {
        let texts = ListTexts::default();
        let feeds: Vec<FeedId> = (0..100).map(|n| format!("f{n}").parse().unwrap()).collect();
        let list = FeedList::default();
        let [one, same] = [(); 2].map(|()| texts.share(&feeds[0], &list));
        assert_eq!((one.as_ptr(), &one[..]), (same.as_ptr(), &b"\"rows\":[]"[..]));
        let mut newer = list.clone();
        newer.at.seq += 1;
        assert_ne!(texts.share(&feeds[0], &newer).as_ptr(), one.as_ptr());
        for feed in &feeds {
            drop(texts.share(feed, &list));
        }
        assert!(texts.0.lock().unwrap().len() < 50, "texts that nobody is sent go");
    }
}
