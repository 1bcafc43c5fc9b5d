//! Instants and how they are written.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::Offset;

/// An instant: milliseconds since 1970-01-01T00:00:00Z. Written as RFC 3339 UTC with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub i64);

impl Millis {
    /// The last instant RFC 3339 can spell, 9999-12-31T23:59:59.999Z.
    pub const MAX: Millis = Millis(253_402_300_799_999);

    /// The system clock's reading. For loops and request edges only: everything below takes `now`.
    pub fn now() -> Self {
        Millis(Timestamp::now().as_millisecond() + set_by_a_test())
    }

    /// This instant moved by `ms`, held inside what RFC 3339 can spell.
    pub fn plus(self, ms: u64) -> Self {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        Millis(self.0.saturating_add(ms).min(Self::MAX.0))
    }

    /// Milliseconds from `earlier` to here, 0 when `earlier` is later.
    pub fn since(self, earlier: Millis) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// Reads an RFC 3339 time in any offset; finer than a millisecond is cut off.
    pub fn parse(text: &str) -> Option<Self> {
        let at: Timestamp = is_rfc_3339(text).then(|| text.parse().ok())??;
        // Towards the past, also before 1970.
        Some(Millis(at.as_microsecond().div_euclid(1_000)))
    }
}

/// Whether `text` has the separators of RFC 3339: the parser reads more of ISO 8601 than that.
fn is_rfc_3339(text: &str) -> bool {
    let bytes = text.as_bytes();
    let [_, _, _, _, b'-', _, _, b'-', _, _, b'T' | b't', _, _, b':', _, _, b':', _, _, .., _] = bytes else {
        return false;
    };
    let offset = matches!(bytes, [.., b'Z' | b'z'] | [.., b'+' | b'-', _, _, b':', _, _]);
    offset && !text.contains([',', '['])
}

impl serde::Serialize for Millis {
    /// As it is written everywhere: RFC 3339 in UTC with milliseconds.
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Millis {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        Millis::parse(&text).ok_or_else(|| serde::de::Error::custom("not a time"))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = Offset::UTC.to_datetime(Timestamp::from_millisecond(self.0).unwrap_or_default());
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            at.year(),
            at.month(),
            at.day(),
            at.hour(),
            at.minute(),
            at.second(),
            at.millisecond()
        )
    }
}

/// By how many milliseconds a test has set the clock of this process: the file `clock` in the folder that
/// `TIPCAST_FAULTS` names. Only test builds have it.
#[cfg(feature = "faults")]
fn set_by_a_test() -> i64 {
    static FILE: std::sync::OnceLock<Option<std::path::PathBuf>> = std::sync::OnceLock::new();
    let file = FILE.get_or_init(|| {
        std::env::var_os("TIPCAST_FAULTS").map(|dir| std::path::Path::new(&dir).join("clock"))
    });
    let written = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    written.and_then(|ms| ms.trim().parse().ok()).unwrap_or(0)
}

#[cfg(not(feature = "faults"))]
#[inline(always)]
fn set_by_a_test() -> i64 {
    0
}

#[cfg(test)]
mod tests {
    use super::Millis;

    #[test]
    fn a_time_is_written_in_utc_with_milliseconds() {
        assert_eq!(Millis(1_795_177_783_042).to_string(), "2026-11-20T12:29:43.042Z");
        assert_eq!(Millis(-1).to_string(), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn any_offset_is_read_and_anything_else_is_not() {
        let noon = Millis::parse("2026-11-20T12:00:00Z").unwrap();
        assert_eq!(Millis::parse("2026-11-20T20:00:00.000999+08:00"), Some(noon));
        let before_1970 = Millis::parse("1969-12-31t23:59:59.9999z");
        assert_eq!(before_1970, Some(Millis(-1)));
        let bad = [
            "",
            "now",
            "2026-11-20",
            "2026-11-20T12:00:00",
            "2026-13-01T00:00:00Z",
            // Of ISO 8601, and not of RFC 3339.
            "2026-11-20 12:00:00Z",
            "20261120T120000Z",
            "2026-11-20T12:00Z",
            "2026-11-20T12:00:00,5Z",
            "2026-11-20T12:00:00+08",
            "2026-11-20T12:00:00+08:00[Asia/Shanghai]",
            "+002026-11-20T12:00:00Z",
        ];
        for bad in bad {
            assert_eq!(Millis::parse(bad), None, "{bad}");
        }
    }
}
