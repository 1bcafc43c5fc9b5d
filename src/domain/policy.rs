//! A feed's policy: how many rows, how gifts join, how long things are kept.

use serde_json::value::RawValue;

use super::json::{Fault, Field, Object, Refused};
use super::review::{ReviewDefault, ReviewMode};
use super::tally::Rules;
use super::tally::measure::{MAX_POINTS, Points};
use super::tally::period::{Period, Periods, Zone};
use super::{currency, limits};

/// What a gift does that finds the dedup lock of its user and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dedup {
    /// It joins the lock's row in place and renews the lock.
    Combine,
    /// It is not shown.
    Drop,
    /// There is no lock: every gift is a row.
    Off,
}

impl Dedup {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Dedup::Combine => "combine",
            Dedup::Drop => "drop",
            Dedup::Off => "off",
        }
    }
}

/// Who may read and watch a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// Everybody.
    #[default]
    Public,
    /// Who has a viewer token for it, or a key with the right to read.
    Private,
}

impl Visibility {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Visibility::Public => "public",
            Visibility::Private => "private",
        }
    }
}

impl std::str::FromStr for Visibility {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "public" => Ok(Visibility::Public),
            "private" => Ok(Visibility::Private),
            _ => Err("must be \"public\" or \"private\""),
        }
    }
}

/// Whether watchers see how many watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TellPresence {
    /// They are not.
    #[default]
    Off,
    /// They see the number.
    Count,
}

impl TellPresence {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            TellPresence::Off => "off",
            TellPresence::Count => "count",
        }
    }

    /// What this word says.
    pub fn of(word: &str) -> Option<TellPresence> {
        [TellPresence::Off, TellPresence::Count].into_iter().find(|it| it.as_str() == word)
    }
}

/// The whole policy in force for a feed. Field names are the API's.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Rows of the list, 1–100.
    pub capacity: u64,
    /// What a repeated gift does.
    pub dedup: Dedup,
    /// How long the dedup lock lasts, 0–86 400 000 ms; 0 takes no lock.
    pub dedup_window_ms: u64,
    /// How long a row lives after its last change; 0 for ever, else 1 000–604 800 000 ms.
    pub row_ttl_ms: u64,
    /// How much later gifts are shown, 0–604 800 000 ms.
    pub delay_ms: u64,
    /// How long changes are gathered for watchers, 0–1 000 ms.
    pub flush_ms: u64,
    /// How long an id is remembered, 60 000–604 800 000 ms.
    pub idempotency_window_ms: u64,
    /// How many of the newest changes a watcher can resume over, 0–100 000.
    pub history: u64,
    /// Who may read and watch.
    pub visibility: Visibility,
    /// Whether watchers see how many watch.
    pub presence: TellPresence,
    /// The periods that are counted; none costs nothing.
    pub totals: Periods,
    /// Where days, weeks and months begin.
    pub time_zone: Zone,
    /// Points for a minor unit of each currency, 0–1 000 000.
    pub points: Points,
    /// Which gifts wait for a host.
    pub review: ReviewMode,
    /// How long they wait, 1 000–3 600 000 ms.
    pub review_timeout_ms: u64,
    /// What happens then.
    pub review_default: ReviewDefault,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            capacity: 10,
            dedup: Dedup::Combine,
            dedup_window_ms: 5_000,
            row_ttl_ms: 0,
            delay_ms: 0,
            flush_ms: 50,
            idempotency_window_ms: 86_400_000,
            history: 1024,
            visibility: Visibility::Public,
            presence: TellPresence::Off,
            totals: Periods::default(),
            time_zone: Zone::default(),
            points: Points::default(),
            review: ReviewMode::Off,
            review_timeout_ms: 60_000,
            review_default: ReviewDefault::Mask,
        }
    }
}

impl Policy {
    /// This policy with what `patch` sets replaced.
    pub fn with(&self, patch: &PolicyPatch) -> Policy {
        Policy {
            capacity: patch.capacity.unwrap_or(self.capacity),
            dedup: patch.dedup.unwrap_or(self.dedup),
            dedup_window_ms: patch.dedup_window_ms.unwrap_or(self.dedup_window_ms),
            row_ttl_ms: patch.row_ttl_ms.unwrap_or(self.row_ttl_ms),
            delay_ms: patch.delay_ms.unwrap_or(self.delay_ms),
            flush_ms: patch.flush_ms.unwrap_or(self.flush_ms),
            idempotency_window_ms: patch.idempotency_window_ms.unwrap_or(self.idempotency_window_ms),
            history: patch.history.unwrap_or(self.history),
            visibility: patch.visibility.unwrap_or(self.visibility),
            presence: patch.presence.unwrap_or(self.presence),
            totals: patch.totals.unwrap_or(self.totals),
            time_zone: patch.time_zone.as_ref().unwrap_or(&self.time_zone).clone(),
            points: patch.points.as_ref().unwrap_or(&self.points).clone(),
            review: patch.review.unwrap_or(self.review),
            review_timeout_ms: patch.review_timeout_ms.unwrap_or(self.review_timeout_ms),
            review_default: patch.review_default.unwrap_or(self.review_default),
        }
    }

    /// What it says about counting.
    pub fn rules(&self) -> Rules {
        Rules { periods: self.totals, zone: self.time_zone.clone(), points: self.points.clone() }
    }

    /// Why this policy may not be, if it may not: for defaults that come from a configuration.
    pub fn check(&self) -> Result<(), Refused> {
        let raw = serde_json::value::to_raw_value(self).map_err(|e| Refused::Syntax(e.to_string()))?;
        PolicyPatch::parse(&raw).map(drop)
    }
}

/// The fields of a policy that somebody set for one feed; the rest follow the server's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PolicyPatch {
    /// See [`Policy::capacity`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// See [`Policy::dedup`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup: Option<Dedup>,
    /// See [`Policy::dedup_window_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup_window_ms: Option<u64>,
    /// See [`Policy::row_ttl_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_ttl_ms: Option<u64>,
    /// See [`Policy::delay_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// See [`Policy::flush_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_ms: Option<u64>,
    /// See [`Policy::idempotency_window_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_window_ms: Option<u64>,
    /// See [`Policy::history`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<u64>,
    /// See [`Policy::visibility`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    /// See [`Policy::presence`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence: Option<TellPresence>,
    /// See [`Policy::totals`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<Periods>,
    /// See [`Policy::time_zone`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<Zone>,
    /// See [`Policy::points`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<Points>,
    /// See [`Policy::review`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewMode>,
    /// See [`Policy::review_timeout_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review_timeout_ms: Option<u64>,
    /// See [`Policy::review_default`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review_default: Option<ReviewDefault>,
}

impl PolicyPatch {
    /// Reads the body of a PUT or PATCH.
    pub fn parse(raw: &RawValue) -> Result<PolicyPatch, Refused> {
        let mut faults = Vec::new();
        let Some(mut body) = Object::open(raw, &mut faults) else {
            return Err(Refused::Invalid(faults));
        };
        let mut int = |name: &'static str, (least, most)| {
            body.take(name).and_then(|f| f.integer(least, most, &mut faults))
        };
        let mut patch = PolicyPatch {
            capacity: int("capacity", limits::CAPACITY),
            dedup: None,
            dedup_window_ms: int("dedup_window_ms", limits::DEDUP_WINDOW_MS),
            row_ttl_ms: None,
            delay_ms: int("delay_ms", limits::DELAY_MS),
            flush_ms: int("flush_ms", limits::FLUSH_MS),
            idempotency_window_ms: int("idempotency_window_ms", limits::IDEMPOTENCY_WINDOW_MS),
            history: int("history", limits::HISTORY),
            visibility: None,
            presence: None,
            totals: None,
            time_zone: None,
            points: None,
            review: None,
            review_timeout_ms: int("review_timeout_ms", limits::REVIEW_TIMEOUT_MS),
            review_default: None,
        };
        patch.row_ttl_ms = body.take("row_ttl_ms").and_then(|f| read_ttl(&f, &mut faults));
        patch.dedup = body.take("dedup").and_then(|f| read_dedup(&f, &mut faults));
        patch.visibility = body.take("visibility").and_then(|f| {
            let word = f.string(&mut faults)?;
            word.parse::<Visibility>().map_err(|rule| f.wrong(&mut faults, rule)).ok()
        });
        patch.presence = body.take("presence").and_then(|f| read_presence(&f, &mut faults));
        patch.totals = body.take("totals").and_then(|f| read_periods(&f, &mut faults));
        patch.time_zone = body.take("time_zone").and_then(|f| {
            let zone = f.string(&mut faults)?.parse();
            zone.map_err(|rule| f.wrong(&mut faults, rule)).ok()
        });
        patch.points = body.take("points").and_then(|f| read_points(&f, &mut faults));
        patch.review = body.take("review").and_then(|f| read_word(&f, &mut faults));
        patch.review_default = body.take("review_default").and_then(|f| read_word(&f, &mut faults));
        body.close(&mut faults);
        if faults.is_empty() { Ok(patch) } else { Err(Refused::Invalid(faults)) }
    }

    /// This patch with what `newer` sets replaced.
    pub fn merged(&self, newer: &PolicyPatch) -> PolicyPatch {
        PolicyPatch {
            capacity: newer.capacity.or(self.capacity),
            dedup: newer.dedup.or(self.dedup),
            dedup_window_ms: newer.dedup_window_ms.or(self.dedup_window_ms),
            row_ttl_ms: newer.row_ttl_ms.or(self.row_ttl_ms),
            delay_ms: newer.delay_ms.or(self.delay_ms),
            flush_ms: newer.flush_ms.or(self.flush_ms),
            idempotency_window_ms: newer.idempotency_window_ms.or(self.idempotency_window_ms),
            history: newer.history.or(self.history),
            visibility: newer.visibility.or(self.visibility),
            presence: newer.presence.or(self.presence),
            totals: newer.totals.or(self.totals),
            time_zone: newer.time_zone.clone().or_else(|| self.time_zone.clone()),
            points: newer.points.clone().or_else(|| self.points.clone()),
            review: newer.review.or(self.review),
            review_timeout_ms: newer.review_timeout_ms.or(self.review_timeout_ms),
            review_default: newer.review_default.or(self.review_default),
        }
    }

    /// `newer` in the place of this patch. What it leaves out follows the defaults again, but for who may see
    /// the feed: a producer that does not know of that must not open a private feed.
    pub fn replaced(&self, newer: &PolicyPatch) -> PolicyPatch {
        PolicyPatch { visibility: newer.visibility.or(self.visibility), ..newer.clone() }
    }
}

fn read_ttl(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<u64> {
    let ms = field.raw.parse::<u64>().ok();
    let (least, most) = limits::ROW_TTL_MS;
    let legal = ms.filter(|ms| *ms == 0 || (least..=most).contains(ms));
    if legal.is_none() {
        field.wrong(faults, format!("must be 0 (rows stay) or an integer from {least} to {most}"));
    }
    legal
}

fn read_word<T: std::str::FromStr<Err = &'static str>>(
    field: &Field<'_>,
    faults: &mut Vec<Fault>,
) -> Option<T> {
    match field.string(faults)?.parse() {
        Ok(word) => Some(word),
        Err(rule) => {
            field.wrong(faults, rule);
            None
        }
    }
}

fn read_presence(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<TellPresence> {
    let presence = TellPresence::of(&field.string(faults)?);
    if presence.is_none() {
        field.wrong(faults, "must be \"off\" or \"count\"");
    }
    presence
}

/// Items of a list of periods, of which there are five: a client may repeat some.
const PERIODS_MAX: usize = 64;

fn read_periods(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<Periods> {
    let word = |item: Field<'_>| item.text(&mut Vec::new())?.parse::<Period>().ok();
    let periods: Option<Periods> = field.items(PERIODS_MAX, faults)?.into_iter().map(word).collect();
    if periods.is_none() {
        field.wrong(faults, "must be a list of all, session, day, week and month");
    }
    periods
}

/// Currencies that may have points.
const MAX_CURRENCIES_WITH_POINTS: usize = 64;

fn read_points(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<Points> {
    let points: Option<std::collections::BTreeMap<String, u64>> = serde_json::from_str(field.raw).ok();
    let points = points.and_then(|given| {
        let count = given.len();
        let read = |(name, each): (String, u64)| {
            currency::read(&name).filter(|_| each <= MAX_POINTS).map(|currency| (currency.code, each))
        };
        let read: Option<std::collections::BTreeMap<String, u64>> = given.into_iter().map(read).collect();
        // `eur` and `EUR` are one currency, which cannot have two numbers of points.
        read.filter(|it| it.len() == count && count <= MAX_CURRENCIES_WITH_POINTS)
    });
    if points.is_none() {
        field.wrong(
            faults,
            "must be an object of at most 64 different currencies (3 to 12 of A-Z a-z), each with an integer \
                             from 0 to 1000000: points for a minor unit",
        );
    }
    points.map(|points| Points(points.into()))
}

fn read_dedup(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<Dedup> {
    let word = field.string(faults)?;
    match word.as_str() {
        "combine" => Some(Dedup::Combine),
        "drop" => Some(Dedup::Drop),
        "off" => Some(Dedup::Off),
        _ => {
            field.wrong(faults, "must be \"combine\", \"drop\" or \"off\"");
            None
        }
    }
}
