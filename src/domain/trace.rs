//! Where a gift stands in a trace of its producer: W3C Trace Context, version 00.

use std::fmt;
use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

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
    /// Whether whoever came before records the trace.
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_is_no_header_is_refused() {
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
