//! What a watcher needs before the first frame, over whichever transport it comes: a place on this node, room to watch
//! its feed, and that feed's list.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use actix_web::web;

use super::connection::{Connection, Transport};
use super::tally::Tally;
use super::watcher::Watcher;
use crate::domain::FeedId;
use crate::http::Gate;
use crate::http::door::places::{Full, WatcherPlace};
use crate::http::door::{Identity, RequestHead};
use crate::http::problem::ApiError;
use crate::live::Lease;
use crate::live::bounds::{Admission, Refused};
use crate::live::session::{Session, WatchOptions};
use crate::live::worker::Worker;
use crate::metrics::labels::Bound;

/// How long a newcomer waits for the feed's first list before it is answered to come back.
pub(super) const LIST_TIMEOUT: Duration = Duration::from_secs(4);

/// Somebody who may watch.
pub struct Newcomer {
    pub(super) place: WatcherPlace,
    /// The feed to watch, admitted already. `None`: the client chooses feeds later.
    pub(super) only: Option<Only>,
    /// The address that it counts for; `None` if that is not limited.
    address: Option<IpAddr>,
    watcher: Watcher,
}

/// The one feed that a connection watches.
pub(super) struct Only {
    pub feed: FeedId,
    pub options: WatchOptions,
    pub admission: Admission,
    /// It is followed until the watcher follows it; `None` if others of its thread do already.
    pub lease: Option<Lease>,
}

/// Why there is no room for another watcher.
#[derive(Debug)]
pub(super) enum NoRoom {
    Place(Full),
    Feed(Refused),
}

impl NoRoom {
    /// Counts that the bound was met, and says what to answer.
    pub(super) fn counted(self, gate: &Gate) -> ApiError {
        let (bound, problem) = match self {
            NoRoom::Place(Full::Server) => (Bound::Watchers, ApiError::NoPlace),
            NoRoom::Place(Full::Address) => (Bound::WatchersPerAddress, ApiError::TooManyConnections),
            NoRoom::Feed(refused) => (refused.bound(), ApiError::TooManySubscriptions(refused.explained().1)),
        };
        gate.live.metrics().bounds_met[bound].inc();
        problem
    }
}

impl Newcomer {
    /// Takes a place for who sent this head, and room for `feed`. `worker`: its feed needs no lease where others watch
    /// it on that thread. A refusal is not counted here, because it may not be the answer.
    pub(super) fn admit(
        gate: &web::Data<Gate>,
        head: &RequestHead<'_>,
        identity: Identity,
        feed: Option<(FeedId, WatchOptions)>,
        worker: Option<&Worker>,
    ) -> Result<Newcomer, NoRoom> {
        let address = gate.door.address(head);
        let only = feed.as_ref().map(|(feed, _)| feed);
        let watcher = Watcher::new(gate.clone().into_inner(), identity, only);
        let place = gate.door.place(head).map_err(NoRoom::Place)?;
        let only = match feed {
            Some((feed, options)) => {
                let admission = gate.live.admit_quietly(address, &feed).map_err(NoRoom::Feed)?;
                let is_listed = worker.is_some_and(|worker| worker.has_list(&feed));
                let lease = (!is_listed).then(|| gate.live.lease(&feed));
                Some(Only { feed, options, admission, lease })
            }
            None => None,
        };
        Ok(Newcomer { place, only, address, watcher })
    }

    /// The lease of a feed whose list is not there yet.
    pub(super) fn awaited(&self) -> Option<&Lease> {
        self.only.as_ref()?.lease.as_ref().filter(|lease| !lease.is_listed())
    }

    /// Whether its feed is private, as far as its lease knows.
    pub(super) fn is_private(&self) -> bool {
        self.only.as_ref().and_then(|only| only.lease.as_ref()).is_some_and(Lease::is_private)
    }

    /// The connection, served by this thread.
    pub(super) fn connect<T: Transport>(
        self,
        worker: &Rc<Worker>,
        tally: &Rc<Tally>,
        transport: impl FnOnce(Watcher) -> T,
    ) -> Connection<T> {
        let Newcomer { place, only, address, watcher } = self;
        let mut session = Session::new(worker.clone(), address);
        if let Some(Only { feed, options, admission, lease }) = only {
            session.watch(&feed, options, admission);
            session.allow(|feed| watcher.may_see(feed));
            drop(lease);
        }
        Connection::new(session, transport(watcher), tally.clone(), place)
    }
}
