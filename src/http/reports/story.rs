//! One gift's story: what became of it, and which readers have it.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::ledger::{AT_ONCE, LOOKED_AT};
use super::steps::read_part;
use super::{Gate, ask_each, feed_of};
use crate::domain::story::{EntryState, GiftMemory, GiftStory};
use crate::domain::{Cursor, Entry, FeedId, GiftId, HookKey, Millis, Reader};
use crate::http::answers::fresh_text;
use crate::http::caller_of;
use crate::http::moderation::{forgotten, gift_of};
use crate::http::problem::ApiError;

/// `GET /v1/feeds/{feed}/gifts/{id}`
pub(in crate::http) async fn get(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let (feed, id) = (feed_of(&req)?, gift_of(&req)?);
    let _turn = gate.steps.turn(&caller_of(&req)).await?;
    let known = gate.read(gate.store.read_gift(&feed, &id, Millis::now())).await?;
    let memory = known.ok_or_else(forgotten)?;
    let entries = read_entries(&gate, &feed, &id, &memory).await?;
    let readers = read_readers(&gate, &feed, memory.first, &entries).await?;
    Ok(fresh_text(StatusCode::OK, GiftStory { id, memory, entries, readers }.to_json()))
}

async fn read_entries(
    gate: &Gate,
    feed: &FeedId,
    id: &GiftId,
    memory: &GiftMemory,
) -> Result<Vec<Entry>, ApiError> {
    let mut found = Vec::new();
    let Some(mut from) = memory.first else { return Ok(found) };
    // Up to the entry that makes the remembered state; where one of them was cut, nothing says where to stop.
    for _ in 0..LOOKED_AT / AT_ONCE {
        let part = read_part(gate, feed, from, AT_ONCE).await?;
        let Some(last) = part.entries.last() else { break };
        from = Cursor(last.cursor.0 + 1);
        found.extend(part.entries.into_iter().filter(|entry| GiftStory::takes(id, entry)));
        if from >= part.behind || memory.is_complete_with(&found) {
            break;
        }
    }
    Ok(found)
}

/// What each reader has done with the newest entry that is for it; without readers that have none. Of entries that were cut
/// only who lost the first: what the others did with it, and whether it was for them, nobody knows any more.
async fn read_readers(
    gate: &Gate,
    feed: &FeedId,
    first: Option<Cursor>,
    entries: &[Entry],
) -> Result<Vec<(Reader, EntryState, Option<String>)>, ApiError> {
    let Some(first) = first else { return Ok(Vec::new()) };
    let now = Millis::now();
    let readers = gate.read(gate.store.list_readers(Some(feed))).await?;
    let states = ask_each(&readers, |(_, reader)| read_reader(gate, feed, reader, (first, entries), now));
    Ok(states.await?.into_iter().flatten().collect())
}

async fn read_reader(
    gate: &Gate,
    feed: &FeedId,
    reader: &Reader,
    (first, entries): (Cursor, &[Entry]),
    now: Millis,
) -> Result<Option<(Reader, EntryState, Option<String>)>, ApiError> {
    let state_of = async |cursor| gate.read(gate.store.read_entry_state(feed, reader, cursor, now)).await;
    if entries.is_empty() {
        let state = state_of(first).await?.filter(|state| *state == EntryState::Lost);
        return Ok(state.map(|state| (reader.clone(), state, None)));
    }
    let (mut newest, mut error) = (entries.last(), None);
    if let Some(key) = HookKey::of(feed, reader) {
        // One that is gone reads nothing any more.
        let Some(hook) = gate.read(gate.store.read_webhook(&key)).await? else { return Ok(None) };
        newest = entries.iter().rfind(|entry| hook.spec.wants(entry));
        error = hook.last_error.map(|error| error.text);
    }
    let Some(entry) = newest else { return Ok(None) };
    Ok(state_of(entry.cursor).await?.map(|state| (reader.clone(), state, error)))
}
