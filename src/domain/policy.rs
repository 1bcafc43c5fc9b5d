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
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = DedupMode))]
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

impl std::str::FromStr for Dedup {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = [Dedup::Combine, Dedup::Drop, Dedup::Off].into_iter().find(|it| it.as_str() == word);
        found.ok_or("must be \"combine\", \"drop\" or \"off\"")
    }
}

/// Who may read and watch a feed: everybody, or who has a viewer token for it or a key with the right to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(utoipa::ToSchema))]
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
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = PresenceMode))]
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
}

impl std::str::FromStr for TellPresence {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = [TellPresence::Off, TellPresence::Count].into_iter().find(|it| it.as_str() == word);
        found.ok_or("must be \"off\" or \"count\"")
    }
}

/// Makes of one row for each field: the policy, its default, what may be set of it for a feed, how that is read and laid over what was
/// there, and the bounds for the API's document. A row is
/// `name: type = default, in bounds, read by a function, as the type that the document shows;`, where a number within bounds needs no
/// function and most types no other in the document.
macro_rules! policy {
    ($($(#[$meta:meta])* $name:ident: $kind:ty = $default:expr
        $(, in $bounds:expr)? $(, read $read:path)? $(, as $shown:ty)?;)*) => {
        /// How a feed behaves: the whole policy in force.
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[cfg_attr(test, derive(utoipa::ToSchema))]
        pub struct Policy {
            $($(#[$meta])* $(#[cfg_attr(test, schema(value_type = $shown))])? pub $name: $kind,)*
        }

        impl Default for Policy {
            fn default() -> Self {
                Policy { $($name: $default,)* }
            }
        }

        impl Policy {
            /// Fields that are numbers, with the least and the largest.
            pub const BOUNDS: &[(&str, (u64, u64))] = &[$($((stringify!($name), $bounds),)?)*];

            /// This policy with what `patch` sets replaced.
            pub fn with(&self, patch: &PolicyPatch) -> Policy {
                Policy { $($name: patch.$name.as_ref().unwrap_or(&self.$name).clone(),)* }
            }
        }

        /// Any of a policy's fields: those that are set for one feed. The rest follow the server's defaults.
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(utoipa::ToSchema))]
        pub struct PolicyPatch {
            $($(#[$meta])* $(#[cfg_attr(test, schema(value_type = Option<$shown>))])?
            #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$kind>,)*
        }

        impl PolicyPatch {
            /// Reads the body of a PUT or PATCH.
            pub fn parse(raw: &RawValue) -> Result<PolicyPatch, Refused> {
                let mut faults = Vec::new();
                let Some(mut body) = Object::open(raw, &mut faults) else {
                    return Err(Refused::Invalid(faults));
                };
                $(let $name = body
                    .take(stringify!($name))
                    .and_then(|field| policy!(@read field, faults, [$($read)?], [$($bounds)?]));)*
                body.close(&mut faults);
                if faults.is_empty() { Ok(PolicyPatch { $($name),* }) } else { Err(Refused::Invalid(faults)) }
            }

            /// This patch with what `newer` sets replaced.
            pub fn merged(&self, newer: &PolicyPatch) -> PolicyPatch {
                PolicyPatch { $($name: newer.$name.as_ref().or(self.$name.as_ref()).cloned(),)* }
            }
        }
    };
    (@read $field:ident, $faults:ident, [$read:path], $bounds:tt) => { $read(&$field, &mut $faults) };
    (@read $field:ident, $faults:ident, [], [$bounds:expr]) => {
        $field.integer($bounds.0, $bounds.1, &mut $faults)
    };
}

policy! {
    /// Rows of the list.
    capacity: u64 = 10, in limits::CAPACITY;
    /// What a repeated gift does.
    dedup: Dedup = Dedup::Combine, read read_word;
    /// How long the dedup lock lasts; 0 takes no lock.
    dedup_window_ms: u64 = 5_000, in limits::DEDUP_WINDOW_MS;
    /// How long a row lives after its last change; 0 for ever, else at least 1 000.
    row_ttl_ms: u64 = 0, in (0, limits::ROW_TTL_MS.1), read read_ttl;
    /// How much later gifts are shown.
    delay_ms: u64 = 0, in limits::DELAY_MS;
    /// How long changes are gathered for watchers.
    flush_ms: u64 = 50, in limits::FLUSH_MS;
    /// How long an id is remembered.
    idempotency_window_ms: u64 = 86_400_000, in limits::IDEMPOTENCY_WINDOW_MS;
    /// How many of the newest changes a watcher can resume over.
    history: u64 = 1024, in limits::HISTORY;
    /// Who may read and watch. A PUT that leaves it out does not change it.
    visibility: Visibility = Visibility::Public, read read_word;
    /// Whether watchers see how many watch.
    presence: TellPresence = TellPresence::Off, read read_word;
    /// Which gifts wait for a host: those with a message or a name that was not approved before, or all.
    review: ReviewMode = ReviewMode::Off, read read_word;
    /// How long they wait.
    review_timeout_ms: u64 = 60_000, in limits::REVIEW_TIMEOUT_MS;
    /// What happens then.
    review_default: ReviewDefault = ReviewDefault::Mask, read read_word;
    /// The periods that are counted; one that is switched off is discarded.
    totals: Periods = Periods::default(), read read_periods, as Vec<Period>;
    /// The IANA name of the time zone in which days begin.
    #[cfg_attr(test, schema(example = "Europe/Berlin"))]
    time_zone: Zone = Zone::default(), read read_word, as String;
    /// Points for a minor unit of each currency, 0 to 1 000 000.
    points: Points = Points::default(), read read_points, as std::collections::BTreeMap<String, u32>;
}

impl Policy {
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

impl PolicyPatch {
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
