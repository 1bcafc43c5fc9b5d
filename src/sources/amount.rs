//! Amounts, read from the text that the JSON has: a decimal number is never a float here, and what
//! does not fit exactly is refused.

use std::fmt;

use crate::domain::MAX_SAFE;

/// Significant digits of an amount at most; 2^53 − 1 has 16.
const DIGITS_MAX: usize = 30;

/// Exponents beyond this are too large or too fine for any currency, whatever their digits say.
const EXPONENT_MAX: i64 = 1_000;

/// A decimal number that is not negative: `digits × 10^exponent`, exactly. Without trailing zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    digits: u128,
    exponent: i64,
}

/// Why a text is no amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmountFault {
    /// It is no decimal number such as `5`, `3.00` or `1e2`; there are no thousands separators and no
    /// currency signs.
    NotANumber,
    /// It is below zero.
    Negative,
    /// It has a finer part than the currency's smallest unit.
    TooFine,
    /// It is more than 2^53 − 1 smallest units.
    TooLarge,
}

impl fmt::Display for AmountFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AmountFault::NotANumber => "is not a decimal number such as 5 or 3.00",
            AmountFault::Negative => "is below zero",
            AmountFault::TooFine => "has more decimals than its currency; it is not rounded",
            AmountFault::TooLarge => "is larger than 2^53 - 1 of the currency's smallest unit",
        })
    }
}

impl Decimal {
    /// Reads a JSON number's text, or the same as the content of a string.
    pub fn parse(text: &str) -> Result<Decimal, AmountFault> {
        let text = text.trim_ascii();
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
            None => (text, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return Err(AmountFault::NotANumber),
            None => (mantissa, ""),
        };
        let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
            return Err(AmountFault::NotANumber);
        }
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let kept = digits.trim_end_matches('0');
        let decimal = match kept.len() {
            0 => Decimal { digits: 0, exponent: 0 },
            n if n > DIGITS_MAX => {
                let fine = exponent < fraction.len() as i64;
                return Err(if fine { AmountFault::TooFine } else { AmountFault::TooLarge });
            }
            _ => {
                let zeros = (digits.len() - kept.len()) as i64;
                let digits = kept.parse().map_err(|_| AmountFault::TooLarge)?;
                Decimal { digits, exponent: exponent - fraction.len() as i64 + zeros }
            }
        };
        match negative && decimal.digits > 0 {
            true => Err(AmountFault::Negative),
            false => Ok(decimal),
        }
    }

    /// This number times `10^places`, when that is an integer of at most 2^53 − 1.
    pub fn times_ten_to(self, places: i64) -> Result<u64, AmountFault> {
        if self.digits == 0 {
            return Ok(0);
        }
        match self.exponent + places {
            // Trailing zeros were taken off, so any power of ten below 1 leaves a fraction.
            ..=-1 => Err(AmountFault::TooFine),
            power @ 0..=38 => {
                let scale = 10u128.checked_pow(power as u32).ok_or(AmountFault::TooLarge)?;
                let whole = self.digits.checked_mul(scale).ok_or(AmountFault::TooLarge)?;
                let whole = u64::try_from(whole).ok().filter(|n| *n <= MAX_SAFE);
                whole.ok_or(AmountFault::TooLarge)
            }
            _ => Err(AmountFault::TooLarge),
        }
    }
}

/// The exponent of a JSON number, held within [`EXPONENT_MAX`].
fn read_exponent(text: &str) -> Result<i64, AmountFault> {
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(AmountFault::NotANumber);
    }
    Ok(sign * digits.parse::<i64>().unwrap_or(EXPONENT_MAX).min(EXPONENT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cents(text: &str) -> Result<u64, AmountFault> {
        Decimal::parse(text)?.times_ten_to(2)
    }

    #[test]
    fn an_amount_is_what_its_digits_say() {
        for (text, expected) in [
            ("3.00", 300),
            ("3", 300),
            ("0.1", 10),
            (" 5.5 ", 550),
            ("0", 0),
            ("-0.00", 0),
            ("1e2", 10_000),
            ("150E-1", 1_500),
            ("1.500000000000000000000000000000000", 150),
            ("0000000000000000000000000000000000000007", 700),
            // A float would make 114.99999999999999 of 1.15 × 100 and 0.07 × 100 more than 7.
            ("1.15", 115),
            ("0.07", 7),
            ("90071992547409.91", MAX_SAFE),
        ] {
            assert_eq!(cents(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn inexact_amounts_are_refused_with_the_reason() {
        use AmountFault::*;
        for (text, fault) in [
            ("", NotANumber),
            (".", NotANumber),
            (".5", NotANumber),
            ("5.", NotANumber),
            ("1,000.00", NotANumber),
            ("1 000", NotANumber),
            ("$5", NotANumber),
            ("+5", NotANumber),
            ("5e", NotANumber),
            ("NaN", NotANumber),
            ("٣", NotANumber),
            ("0x10", NotANumber),
            ("-1", Negative),
            ("3.005", TooFine),
            ("1e-3", TooFine),
            ("0.00000000000000000000000000000000000000000001", TooFine),
            ("1.234567890123456789012345678901234567", TooFine),
            ("90071992547409.92", TooLarge),
            ("1e999999999999999999999", TooLarge),
            ("1e-999999999999999999999", TooFine),
            ("123456789012345678901234567890123456", TooLarge),
        ] {
            assert_eq!(cents(text), Err(fault), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_amount_of_cents_is_read_back(amount in 0..=MAX_SAFE) {
            let text = format!("{}.{:02}", amount / 100, amount % 100);
            prop_assert_eq!(cents(&text), Ok(amount));
            prop_assert_eq!(Decimal::parse(&amount.to_string()).unwrap().times_ten_to(0), Ok(amount));
            let finer = format!("{text}1");
            prop_assert_eq!(cents(&finer), Err(AmountFault::TooFine));
        }

        #[test]
        fn no_text_is_read_as_something_else_than_its_value(text in "-?[0-9]{0,5}(\\.[0-9]{0,5})?(e[+-]?[0-9]{0,2})?") {
            if let Ok(read) = cents(&text) {
                // Few digits: a float holds these exactly enough to compare.
                let float: f64 = text.parse().unwrap();
                prop_assert!((float * 100.0 - read as f64).abs() < 1e-6 * (1.0 + read as f64), "{} {}", text, read);
            }
        }

        #[test]
        fn nothing_makes_it_panic(text in ".{0,60}", places in -50i64..50) {
            let _ = Decimal::parse(&text).and_then(|d| d.times_ten_to(places));
        }
    }
}
