//! Currencies: their codes as gifts carry them, and how many decimals they have.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A currency as a gift carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Currency {
    /// 3–12 letters; an ISO 4217 code is in upper case.
    pub code: String,
    /// How many decimals its smallest unit has; none for what is no ISO code.
    pub decimals: u8,
}

/// The decimals of ISO 4217's codes, from `iso4217.txt`.
static ISO: LazyLock<HashMap<&'static str, u8>> = LazyLock::new(|| {
    let lines = include_str!("iso4217.txt").lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| {
        let (decimals, codes) = line.split_once(' ')?;
        let decimals: u8 = decimals.parse().ok()?;
        Some(codes.split_whitespace().map(move |code| (code, decimals)))
    });
    pairs.flatten().collect()
});

/// The decimals of an ISO 4217 code in upper case; none for anything else.
pub fn iso_decimals(code: &str) -> Option<u8> {
    ISO.get(code).copied()
}

/// Reads a currency: `usd` becomes `USD`, so that one currency never counts as two; `bits` keeps its case. `None` unless it is 3
/// to 12 letters.
pub fn read(text: &str) -> Option<Currency> {
    if !(3..=12).contains(&text.len()) || !text.bytes().all(|b| b.is_ascii_alphabetic()) {
        return None;
    }
    let upper = text.to_ascii_uppercase();
    Some(match iso_decimals(&upper) {
        Some(decimals) => Currency { code: upper, decimals },
        None => Currency { code: text.to_owned(), decimals: 0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_codes_have_their_decimals_and_everything_else_none() {
        for (text, code, decimals) in [
            ("usd", "USD", 2),
            ("JPY", "JPY", 0),
            ("Kwd", "KWD", 3),
            ("ugx", "UGX", 0),
            ("ISK", "ISK", 0),
            ("MGA", "MGA", 2),
            ("xau", "XAU", 0),
            ("CLF", "CLF", 4),
            ("bits", "bits", 0),
            ("XYZ", "XYZ", 0),
        ] {
            assert_eq!(read(text), Some(Currency { code: code.into(), decimals }), "{text}");
        }
        for bad in ["", "us", "US1", "U S", " USD", "thirteenchars"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_table_is_read_whole_and_names_no_code_twice() {
        let lines = include_str!("iso4217.txt").lines().filter(|line| !line.starts_with('#'));
        let codes: Vec<&str> = lines.flat_map(|line| line.split_whitespace().skip(1)).collect();
        assert_eq!(codes.len(), ISO.len());
        assert!(ISO.len() > 160 && codes.iter().all(|code| code.len() == 3), "{}", ISO.len());
    }
}
