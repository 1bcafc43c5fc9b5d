//! What became of a gift, as the log and the table of ids spell it: a line `ID FINGERPRINT STATUS EPOCH SEQ ROW COUNT
//! UNTIL N`, what does not apply being empty, and N lines of what it added and counted. A row's id that begins with the epoch
//! is spelled without it, from the hyphen on.

use memchr::memchr;

use super::fault::{Fault, Step};
use crate::domain::answer::{CountedGift, GiftFate, Remembered};
use crate::domain::json::push_number;
use crate::domain::{Answer, Decision, Fingerprint, Millis, Part, Position, RowId, Scheduled, Status};

/// How a status spells that a gift waits, or was cancelled: its count is the time for which it was scheduled. Of one
/// in review the count is when time decides. The other numbers are those of [`Status`].
const WAITS: u8 = 3;
const CANCELLED: u8 = 4;
const IN_REVIEW: u8 = 6;

/// How a status spells what was decided about a gift in review: so often this is added to it, by its place in
/// [`Decision::ALL`].
const DECIDED: u8 = 16;

/// The position and the row of a gift that was not shown.
const NOT_SHOWN: (&str, u64, &str) = ("", 0, "");

/// About how long the lines of one gift are.
pub(super) const USUAL: usize = 160;

/// One gift's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdLines<'a> {
    pub(super) id: &'a str,
    /// Until when it is remembered.
    pub(super) until: Millis,
    /// All of them.
    pub(super) text: &'a str,
}

impl<'a> IdLines<'a> {
    /// The lines that `text` begins with; none when it does not begin with any.
    pub(super) fn first(text: &'a str) -> Option<IdLines<'a>> {
        let end = memchr(b'\n', text.as_bytes())?;
        let head = &text[..end];
        let (head, more) = head.rsplit_once(' ')?;
        let (head, until) = head.rsplit_once(' ')?;
        let (id, _) = head.split_once(' ')?;
        let until = Millis(until.parse().ok()?);
        let mut len = end + 1;
        for _ in 0..more.parse::<usize>().ok()? {
            len += memchr(b'\n', text.as_bytes().get(len..)?)? + 1;
        }
        Some(IdLines { id, until, text: &text[..len] })
    }

    /// Those of every gift in `text`; a fault when there is anything else in it.
    pub(super) fn all(text: &'a str) -> Step<Vec<IdLines<'a>>> {
        let (mut rest, mut found) = (text, Vec::new());
        while !rest.is_empty() {
            let lines = IdLines::first(rest).ok_or_else(|| Fault::garbled("ids of it cannot be read"))?;
            rest = &rest[lines.text.len()..];
            found.push(lines);
        }
        Ok(found)
    }

    /// What they say.
    pub(super) fn read(&self) -> Step<Remembered> {
        let garbled = || Fault::garbled(format!("what became of the gift {} cannot be read", self.id));
        let (head, part) = self.text.split_once('\n').ok_or_else(garbled)?;
        let words: Vec<&str> = head.split(' ').collect();
        let [id, fingerprint, status, epoch, seq, row, count, _, _] = words[..] else {
            return Err(garbled());
        };
        let parsed = || {
            let count = if count.is_empty() { None } else { Some(count.parse().ok()?) };
            let columns =
                Columns { id, status: status.parse().ok()?, epoch, seq: seq.parse().ok()?, row, count };
            Some((columns, Fingerprint::from_hex(fingerprint)?))
        };
        let (columns, fingerprint) = parsed().ok_or_else(garbled)?;
        columns.remembered(fingerprint, part.strip_suffix('\n').unwrap_or(part))
    }
}

/// Appends the lines of what is remembered of a gift.
pub(super) fn push_id(out: &mut String, it: &Remembered, until: Millis) {
    Columns::of(it).push(out, it.fingerprint, until);
    let Some(CountedGift { counted, user, window }) = &it.counted else {
        out.push_str("1\n");
        it.part.push(out);
        return out.push('\n');
    };
    // For a gift that counted `WINDOW COUNTED` and the user's id, each on a line of its own.
    let part = format!("{}\n{} {counted}\n{user}", it.part, window.0);
    push_part(out, &part);
}

/// Appends how many lines these are, and them.
fn push_part(out: &mut String, part: &str) {
    push_number(out, part.split('\n').count() as i64);
    out.push('\n');
    out.push_str(part);
    out.push('\n');
}

/// The words of the first line that say what became of the gift.
pub(super) struct Columns<'a> {
    pub(super) id: &'a str,
    pub(super) status: u8,
    pub(super) epoch: &'a str,
    pub(super) seq: u64,
    pub(super) row: &'a str,
    pub(super) count: Option<i64>,
}

impl Columns<'_> {
    fn of(it: &Remembered) -> Columns<'_> {
        let place = it.decided.and_then(|it| Decision::ALL.iter().position(|known| *known == it));
        let decided = place.map_or(0, |place| DECIDED * (place as u8 + 1));
        let (id, status, (epoch, seq, row), count) = match &it.fate {
            GiftFate::Taken(Answer { status, id, at, row, count }) => {
                let shown = (at.epoch.as_str(), at.seq, row.as_ref().map_or("", RowId::as_str));
                (id, *status as u8, shown, count.map(|n| n as i64))
            }
            GiftFate::Waits(Scheduled { id, deliver_at }) => (id, WAITS, NOT_SHOWN, Some(deliver_at.0)),
            GiftFate::Cancelled(Scheduled { id, deliver_at }) => {
                (id, CANCELLED, NOT_SHOWN, Some(deliver_at.0))
            }
            GiftFate::InReview { id, expires_at } => (id, IN_REVIEW, NOT_SHOWN, Some(expires_at.0)),
        };
        Columns { id: id.as_str(), status: status + decided, epoch, seq, row, count }
    }

    /// Appends the lines of these words. `part`: what the gift added and counted, without its last line feed.
    pub(super) fn push_with(&self, out: &mut String, fingerprint: Fingerprint, until: Millis, part: &str) {
        self.push(out, fingerprint, until);
        push_part(out, part);
    }

    /// Appends the first line up to N.
    fn push(&self, out: &mut String, fingerprint: Fingerprint, until: Millis) {
        let Columns { id, status, epoch, seq, row, count } = *self;
        out.push_str(id);
        out.push(' ');
        fingerprint.push(out);
        out.push(' ');
        push_number(out, status.into());
        out.push(' ');
        out.push_str(epoch);
        out.push(' ');
        push_number(out, seq as i64);
        out.push(' ');
        let behind = row.strip_prefix(epoch).filter(|rest| !epoch.is_empty() && rest.starts_with('-'));
        out.push_str(behind.unwrap_or(row));
        out.push(' ');
        count.into_iter().for_each(|count| push_number(out, count));
        out.push(' ');
        push_number(out, until.0);
        out.push(' ');
    }

    /// Reads back what was made of these words.
    fn remembered(self, fingerprint: Fingerprint, part: &str) -> Step<Remembered> {
        let Columns { id, status, epoch, seq, row, count } = self;
        let id = id.parse().map_err(|_| Fault::garbled("an id that is none"))?;
        let time = || count.map(Millis).ok_or_else(|| Fault::garbled("a gift without its time"));
        let decided = (status / DECIDED).checked_sub(1);
        let decided = decided.and_then(|place| Decision::ALL.get(usize::from(place))).copied();
        let fate = match status % DECIDED {
            IN_REVIEW => GiftFate::InReview { id, expires_at: time()? },
            WAITS => GiftFate::Waits(Scheduled { id, deliver_at: time()? }),
            CANCELLED => GiftFate::Cancelled(Scheduled { id, deliver_at: time()? }),
            status => {
                let status = [Status::Accepted, Status::Merged, Status::Suppressed, Status::Denied]
                    .into_iter()
                    .find(|known| *known as u8 == status)
                    .ok_or_else(|| Fault::garbled(format!("the gift {id} has the status {status}")))?;
                let garbled = |_| Fault::garbled(format!("where the gift {id} was shown cannot be read"));
                let at = Position { epoch: epoch.parse().map_err(garbled)?, seq };
                let row = match row {
                    "" => None,
                    row if row.starts_with('-') => Some(format!("{epoch}{row}").parse().map_err(garbled)?),
                    row => Some(row.parse().map_err(garbled)?),
                };
                let count = count.map(|count| count as u64);
                GiftFate::Taken(Answer { status, id, at, row, count })
            }
        };
        let (part, counted) =
            read_part(part).ok_or_else(|| Fault::garbled("what a gift added cannot be read"))?;
        Ok(Remembered { fingerprint, fate, part, decided, counted })
    }
}

fn read_part(text: &str) -> Option<(Part, Option<CountedGift>)> {
    let Some((part, rest)) = text.split_once('\n') else { return Some((text.parse().ok()?, None)) };
    let (counted, user) = rest.split_once('\n')?;
    let (window, counted) = counted.split_once(' ')?;
    let (window, counted) = (Millis(window.parse().ok()?), counted.parse().ok()?);
    Some((part.parse().ok()?, Some(CountedGift { counted, user: user.to_owned(), window })))
}
