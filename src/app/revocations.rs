//! What keeps a node's knowledge of revoked viewers as the store has it.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web;

use crate::auth::revoked::{follow as keep_following, read_new, viewer_mark};
use crate::engine::{Revocation, RevokedAt};
use crate::http::Gate;
use crate::supervise::{Part, Parts};

/// How long a start waits for the store to say what is revoked. Until it has, tokens are answered 503.
const AT_START: Duration = Duration::from_millis(500);

/// Starts following, for as long as the task lives.
pub(super) async fn follow(gate: &web::Data<Gate>, parts: &Arc<Parts>) -> tokio::task::JoinHandle<()> {
    let revoked = gate.door.revoked().clone();
    revoked.await_store();
    if gate.door.takes_tokens() {
        let mut at = RevokedAt::default();
        let news = |one: &Revocation| refuse(gate, one);
        let first = read_new(&gate.store, &revoked, &mut at, &news);
        // The loop goes on where this does not come to an end.
        let _ = tokio::time::timeout(AT_START, first).await;
    }
    let gate = gate.clone();
    tokio::spawn(parts.clone().keep(Part::Revocations, move |beat| {
        let (needed, news) = (gate.clone(), gate.clone());
        let refuse = move |one: &Revocation| refuse(&news, one);
        keep_following(gate.store.clone(), revoked.clone(), move || needed.door.takes_tokens(), refuse, beat)
    }))
}

fn refuse(gate: &Gate, one: &Revocation) {
    gate.refuse_viewer(viewer_mark(&one.sub), one.before, one.until);
}
