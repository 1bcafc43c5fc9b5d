//! Numbers as Redis reads and writes them.

/// An integer: decimal digits with at most one sign in front, no spaces, no leading zeros, within 64 bits.
pub fn integer(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = digits == "0" && text == "0"
        || !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
    if !canonical || digits.is_empty() {
        return None;
    }
    text.parse().ok()
}

/// A score: a float as C reads it, infinite too, never NaN.
pub fn float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.is_empty()
        || text.starts_with(|c: char| c.is_ascii_whitespace())
        || text.ends_with(|c: char| c.is_ascii_whitespace())
    {
        return None;
    }
    let bare = text.trim_start_matches(['+', '-']);
    let is_word = bare.eq_ignore_ascii_case("inf") || bare.eq_ignore_ascii_case("infinity");
    if !is_word && !bare.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    text.parse().ok().filter(|number: &f64| !number.is_nan())
}

/// A score as it is answered: without a point where it is an integer below 2^53, else with 17 significant digits, fewer where
/// those say the same.
pub fn write_float(number: f64) -> Vec<u8> {
    if number.is_infinite() {
        return if number > 0.0 { b"inf".to_vec() } else { b"-inf".to_vec() };
    }
    if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 {
        // Also the sign of a zero.
        let sign = if number == 0.0 && number.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", number as i64).into_bytes();
    }
    write_digits(number, 17).into_bytes()
}

/// With this many digits at most: C's `%.17g`, or `%.14g`.
pub fn write_digits(number: f64, most: usize) -> String {
    let scientific = format!("{number:.*e}", most - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if !(-4..most as i32).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(digits), exponent.abs());
    }
    trim(&format!("{number:.*}", (most as i32 - 1 - exponent).max(0) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_canonical_and_floats_are_as_c_writes_them() {
        for (text, number) in
            [("0", 0), ("-7", -7), ("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN)]
        {
            assert_eq!(integer(text.as_bytes()), Some(number));
        }
        for text in ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
        for (number, text) in [
            (3.0, "3"),
            (-0.5, "-0.5"),
            (0.1, "0.10000000000000001"),
            (1e20, "1e+20"),
            (1.5e-7, "1.4999999999999999e-07"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(String::from_utf8(write_float(number)).unwrap(), text);
        }
        assert_eq!(
            (float(b"-inf"), float(b"nan"), float(b"1e3"), float(b" 1")),
            (Some(f64::NEG_INFINITY), None, Some(1e3), None)
        );
    }
}
