//! Amounts as texts: what is read is exactly what the digits say, or it is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tipcast::sources::amount::Decimal;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(decimal) = Decimal::parse(text) else { return };
    for places in -6..=6 {
        let Ok(amount) = decimal.times_ten_to(places) else { continue };
        // Back again, by moving the point of the integer's own digits.
        let back = Decimal::parse(&format!("{amount}e{}", -places)).expect("an amount");
        assert_eq!(back, decimal, "{text} {places}");
        assert!(amount < 1 << 53);
    }
});
