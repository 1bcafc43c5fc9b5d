//! The place of a gift in a trace of its producer: W3C Trace Context, version 00.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::Deserialize;

use super::ids::BadName;

/// The bit of [`TraceParent::flags`] that says that somebody records this trace.
const SAMPLED: u8 = 1;

/// What a `traceparent` header says: a step of a trace, which others may follow.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent {
    /// The trace's id; not all zero.
    pub trace: [u8; 16],
    /// The step's id; not all zero.
    pub span: [u8; 8],
    /// Bit 0: the trace is recorded. Bit 1: its id is random.
    pub flags: u8,
}

impl TraceParent {
    /// Whether the step before records the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The step `span` of the same trace, which is recorded.
    pub fn child(&self, span: [u8; 8]) -> TraceParent {
        TraceParent { span, flags: self.flags | SAMPLED, ..*self }
    }

    /// The first step of a trace with a random id, which is recorded.
    pub fn root(trace: [u8; 16], span: [u8; 8]) -> TraceParent {
        TraceParent { trace, span, flags: SAMPLED | 2 }
    }

    /// The trace's id in lower-case hexadecimal.
    pub fn trace_hex(&self) -> String {
        HEXLOWER.encode(&self.trace)
    }

    /// The step's id in lower-case hexadecimal.
    pub fn span_hex(&self) -> String {
        HEXLOWER.encode(&self.span)
    }
}

impl fmt::Display for TraceParent {
    /// As the header, always in version 00.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_hex(), self.span_hex(), self.flags)
    }
}

impl fmt::Debug for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TraceParent {
    type Err = BadName;

    /// A later version is read as far as version 00 goes, which is what the standard asks for.
    fn from_str(text: &str) -> Result<TraceParent, BadName> {
        const RULE: BadName = BadName("must be a traceparent: version, trace id, span id and flags");
        let bytes = |text: Option<&str>, len: usize| {
            let text =
                text.filter(|text| text.len() == 2 * len && !text.bytes().any(|b| b.is_ascii_uppercase()));
            HEXLOWER_PERMISSIVE.decode(text.ok_or(RULE)?.as_bytes()).map_err(|_| RULE)
        };
        let mut parts = text.split('-');
        let version = bytes(parts.next(), 1)?[0];
        let trace = bytes(parts.next(), 16)?.try_into().map_err(|_| RULE)?;
        let span = bytes(parts.next(), 8)?.try_into().map_err(|_| RULE)?;
        let flags = bytes(parts.next(), 1)?[0];
        let more = parts.next().is_some();
        if version == 0xff || version == 0 && more || trace == [0; 16] || span == [0; 8] {
            return Err(RULE);
        }
        // Bits that version 00 does not know are not passed on.
        Ok(TraceParent { trace, span, flags: flags & 3 })
    }
}

/// Bytes of a [`TraceState`]: as many as the standard wants everybody to pass on.
pub const TRACE_STATE_MAX: usize = 512;

/// Members of a `tracestate`.
const MEMBERS_MAX: usize = 32;

/// Members longer than this go first where there are too many bytes.
const LONG_MEMBER: usize = 128;

/// What the systems that a trace came through noted for themselves: the members of `tracestate` headers, joined by
/// commas. At most [`TRACE_STATE_MAX`] bytes of printable ASCII, never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceState(Arc<str>);

impl TraceState {
    /// Reads all `tracestate` headers of a request as one list. `None` if there is nothing in them, or something that
    /// breaks the standard's rules: then nothing of it may be passed on. Of a list that is too long the long members are
    /// left out, and then the last ones.
    pub fn read<'a>(headers: impl Iterator<Item = &'a str>) -> Option<TraceState> {
        let mut members: Vec<&str> = vec![];
        for member in headers.flat_map(|header| header.split(',')) {
            let member = member.trim_matches([' ', '\t']);
            if member.is_empty() {
                continue;
            }
            let (key, value) = member.split_once('=')?;
            let known = members.iter().any(|other| other.split('=').next() == Some(key));
            if known || members.len() == MEMBERS_MAX || !is_key(key) || !is_value(value) {
                return None;
            }
            members.push(member);
        }
        let length = |members: &[&str]| members.iter().map(|member| member.len() + 1).sum::<usize>();
        if length(&members) > TRACE_STATE_MAX + 1 {
            members.retain(|member| member.len() <= LONG_MEMBER);
        }
        while length(&members) > TRACE_STATE_MAX + 1 {
            members.pop();
        }
        (!members.is_empty()).then(|| TraceState(members.join(",").into()))
    }

    /// As the header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `vendor` or `tenant@vendor`.
fn is_key(key: &str) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-*/".contains(&b);
    let part = |part: &str, most: usize, digit_first: bool| {
        let first = part.bytes().next();
        let begins = first.is_some_and(|b| b.is_ascii_lowercase() || digit_first && b.is_ascii_digit());
        begins && part.len() <= most && part.bytes().all(legal)
    };
    match key.split_once('@') {
        Some((tenant, vendor)) => part(tenant, 241, true) && part(vendor, 14, false),
        None => part(key, 256, true),
    }
}

fn is_value(value: &str) -> bool {
    let legal = |b: u8| matches!(b, b' '..=b'~') && b != b',' && b != b'=';
    (1..=256).contains(&value.len()) && value.bytes().all(legal) && !value.ends_with(' ')
}

/// A place in a trace, as it is passed on: `traceparent`, and `tracestate` where there is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trace {
    /// The step.
    pub step: TraceParent,
    /// What others noted.
    pub state: Option<TraceState>,
}

impl fmt::Display for Trace {
    /// `TRACEPARENT`, or `TRACEPARENT TRACESTATE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.step.fmt(f)?;
        match &self.state {
            Some(state) => write!(f, " {}", state.as_str()),
            None => Ok(()),
        }
    }
}

impl FromStr for Trace {
    type Err = BadName;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Trace, BadName> {
        let (step, state) = text.split_once(' ').unwrap_or((text, ""));
        Ok(Trace { step: step.parse()?, state: TraceState::read([state].into_iter()) })
    }
}

impl serde::Serialize for Trace {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Reads what was stored. A trace that cannot be read is nothing that a gift may be lost for.
pub fn read_or_none<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Trace>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.and_then(|text| text.parse().ok()))
}

impl From<TraceParent> for Trace {
    fn from(step: TraceParent) -> Trace {
        Trace { step, state: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(headers: &[&str]) -> Option<String> {
        TraceState::read(headers.iter().copied()).map(|state| state.as_str().to_owned())
    }

    #[test]
    fn trace_state_of_several_headers_is_one_list() {
        assert_eq!(state(&["rojo=00f067aa0ba902b7"]).as_deref(), Some("rojo=00f067aa0ba902b7"));
        assert_eq!(state(&[" a=1 ,, b@v=x y\t", "0c/*-_=~!"]).as_deref(), Some("a=1,b@v=x y,0c/*-_=~!"));
        assert_eq!(state(&[]), None);
        assert_eq!(state(&["", " , "]), None);
        let trace =
            Trace { step: GIVEN.parse().unwrap(), state: TraceState::read(["a=1,b=x y"].into_iter()) };
        assert_eq!(trace.to_string(), format!("{GIVEN} a=1,b=x y"));
        assert_eq!(trace.to_string().parse(), Ok(trace));
        assert_eq!(GIVEN.parse(), Ok(Trace::from(GIVEN.parse::<TraceParent>().unwrap())));
    }

    #[test]
    fn a_list_that_breaks_a_rule_is_dropped_as_a_whole() {
        let long = |n: usize| "k".repeat(n);
        let many = (0..33).map(|n| format!("k{n}=1")).collect::<Vec<_>>().join(",");
        for bad in [
            "a",
            "=1",
            "a=",
            "A=1",
            "a=1,a=2",
            "a=b=c",
            "a=\u{e9}",
            "a=\n",
            "a b=1",
            "a@=1",
            "@v=1",
            "a@1=1",
            "_a=1",
            &format!("{}=1", long(257)),
            &format!("a={}", long(257)),
            &format!("a@{}=1", long(15)),
            &many,
        ] {
            assert_eq!(state(&["fine=1", bad]), None, "{bad:?}");
        }
        assert!(state(&[many.rsplit_once(',').unwrap().0]).is_some());
    }

    #[test]
    fn of_a_list_that_is_too_long_the_long_members_go_and_then_the_last() {
        let long = format!("long={}", "x".repeat(200));
        let members = |n: usize| (10..10 + n).map(|n| format!("k{n}={}", "y".repeat(46))).collect::<Vec<_>>();
        let ten = members(10).join(",");
        assert_eq!(ten.len(), 509);
        assert_eq!(state(&[&long, &ten]), Some(ten.clone()));
        assert_eq!(state(&[&members(12).join(",")]), Some(ten));
    }

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_read_and_written_again() {
        let parent: TraceParent = GIVEN.parse().unwrap();
        assert!(parent.is_sampled());
        assert_eq!(parent.to_string(), GIVEN);
        let child = parent.child([1; 8]);
        assert_eq!(child.to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0101010101010101-01");
        let quiet: TraceParent = GIVEN.replace("-01", "-02").parse().unwrap();
        assert!(!quiet.is_sampled() && quiet.child([1; 8]).is_sampled());
        assert_eq!(
            TraceParent::root([2; 16], [3; 8]).to_string().parse(),
            Ok(TraceParent::root([2; 16], [3; 8]))
        );
        let later: TraceParent =
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-09-new".parse().unwrap();
        assert_eq!(later.to_string(), GIVEN);
    }

    #[test]
    fn invalid_headers_are_refused() {
        for bad in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47é6-00f067aa0ba902b7-01",
        ] {
            assert!(bad.parse::<TraceParent>().is_err(), "{bad}");
        }
    }
}
