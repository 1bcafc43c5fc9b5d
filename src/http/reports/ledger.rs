//! Reading a feed's ledger without being one of its readers, and adding it up.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::steps::{ENTRIES_PER_STEP, Known, Steps, read_part};
use super::{Gate, feed_of};
use crate::domain::ledger::{ENTRY_TYPES, LedgerFilter, LedgerPart, LedgerSum};
use crate::domain::{Cursor, Millis};
use crate::http::answers::fresh_text;
use crate::http::problem::{ApiError, invalid};
use crate::http::{caller_of, integer_within};

/// Entries in one answer, and as many as are meant when nobody says.
const ENTRIES_PER_PAGE: (usize, usize) = (1_000, 100);

/// Entries read in one trip.
pub(super) const AT_ONCE: usize = 500;

/// Entries looked at for one answer. Where few of them are asked for, a page may be short, or empty, and have a next.
pub(super) const LOOKED_AT: usize = 5_000;

struct Query {
    after: Option<Cursor>,
    limit: usize,
    filter: LedgerFilter,
}

/// `GET /v1/feeds/{feed}/ledger?after=CURSOR&limit=100`
pub(in crate::http) async fn get(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let Query { after, limit, filter } = read_query(&req, true)?;
    let is_filtered = filter != LedgerFilter::default();
    let (mut _turn, mut known) = (None, Known::new());
    if is_filtered {
        _turn = Some(gate.steps.turn(&caller_of(&req)).await?);
        known = gate.steps.known(&gate, &feed, Cursor(0)).await?;
    }
    let mut out = String::from("{\"entries\":[");
    let (mut from, mut looked_at, mut taken) = (after.map_or(Cursor(0), |after| Cursor(after.0 + 1)), 0, 0);
    let next = loop {
        if known.get(&from.0).is_some_and(|step| filter.takes_all(&step.sum) == Some(false)) {
            from.0 += ENTRIES_PER_STEP;
            continue;
        }
        // Where none is left out, no more are read than are wanted.
        let most = if is_filtered { AT_ONCE } else { AT_ONCE.min(limit - taken) };
        // So that a step begins where one was kept.
        let most = most.min((ENTRIES_PER_STEP - from.0 % ENTRIES_PER_STEP) as usize);
        let LedgerPart { entries, behind } = read_part(&gate, &feed, from, most).await?;
        for entry in &entries {
            from = Cursor(entry.cursor.0 + 1);
            if filter.takes(entry) {
                if taken > 0 {
                    out.push(',');
                }
                entry.push_json(&mut out, &feed, None);
                taken += 1;
                if taken == limit {
                    break;
                }
            }
        }
        looked_at += entries.len();
        if entries.is_empty() || from >= behind {
            break None;
        }
        if taken == limit || looked_at >= LOOKED_AT {
            break Some(Cursor(from.0 - 1));
        }
    };
    out.push(']');
    if let Some(next) = next {
        out.push_str(&format!(",\"next\":\"{next}\""));
    }
    out.push('}');
    Ok(fresh_text(StatusCode::OK, out))
}

/// `GET /v1/feeds/{feed}/ledger/summary?from=TIME&to=TIME`
pub(in crate::http) async fn summary(
    req: HttpRequest,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let Query { filter, .. } = read_query(&req, false)?;
    let _turn = gate.steps.turn(&caller_of(&req)).await?;
    // What comes meanwhile is not waited for.
    let LedgerPart { entries, behind: end } = read_part(&gate, &feed, Cursor(0), 1).await?;
    let mut from = entries.first().map_or(end, |oldest| oldest.cursor);
    let mut known = gate.steps.known(&gate, &feed, from).await?;
    let mut sum = LedgerSum::default();
    while from < end {
        let next = Cursor((from.0 / ENTRIES_PER_STEP + 1) * ENTRIES_PER_STEP);
        if let Some(step) = known.get(&from.0)
            && let Some(all) = filter.takes_all(&step.sum)
        {
            if all {
                sum.join(&step.sum);
            }
            from = next;
            continue;
        }
        let LedgerPart { entries, .. } =
            read_part(&gate, &feed, from, (next.min(end).0 - from.0) as usize).await?;
        // Those that were asked for may have been cut meanwhile.
        let Some((first, last)) = entries.first().zip(entries.last()) else { break };
        let is_step = first.cursor.0 % ENTRIES_PER_STEP == 0 && entries.len() as u64 == ENTRIES_PER_STEP;
        entries.iter().filter(|it| it.cursor < end && filter.takes(it)).for_each(|it| sum.add(it));
        from = Cursor(last.cursor.0 + 1);
        if is_step {
            Steps::add(&mut known, entries);
        }
    }
    gate.steps.keep(&feed, known);
    Ok(fresh_text(StatusCode::OK, sum.to_json(&filter, Millis::now())))
}

/// Query parameters; of a page all of them, of a summary its times.
fn read_query(req: &HttpRequest, is_page: bool) -> Result<Query, ApiError> {
    let mut query = Query { after: None, limit: ENTRIES_PER_PAGE.1, filter: LedgerFilter::default() };
    for (name, value) in url::form_urlencoded::parse(req.query_string().as_bytes()) {
        let wrong = |what: &str| Err(invalid(format!("{name} must be {what}")));
        match &*name {
            "from" | "to" => {
                let Some(at) = Millis::parse(&value) else {
                    return wrong("a time such as 2026-01-31T20:00:00Z");
                };
                let bound = if name == "from" { &mut query.filter.from } else { &mut query.filter.to };
                *bound = Some(at);
            }
            "after" if is_page => match value.parse() {
                Ok(after) => query.after = Some(after),
                Err(_) => return wrong("the cursor of an entry"),
            },
            "limit" if is_page => query.limit = integer_within(&name, &value, 1..=ENTRIES_PER_PAGE.0)?,
            "type" if is_page => {
                if !ENTRY_TYPES.contains(&&*value) {
                    return wrong(&format!("one of {}", ENTRY_TYPES.join(", ")));
                }
                query.filter.kind = Some(value.into_owned());
            }
            "user" if is_page => query.filter.user = Some(value.into_owned()),
            // A query parameter of another's making, such as a proxy's, is nobody's fault.
            _ => {}
        }
    }
    Ok(query)
}
