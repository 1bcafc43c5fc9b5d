//! Deliveries of platforms as anybody may send them: never panics, and what is taken is a gift.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tipcast::sources::{self, Event, Owner, Settings, preset};

fuzz_target!(|data: &[u8]| {
    let source = "fuzz".parse().expect("a name");
    let owner = Owner { source: &source, salt: "salt" };
    for preset in preset::all() {
        let Some(settings) = Settings::of_preset(&preset.name) else { continue };
        let Ok(Event::Gift { gift, post }) = sources::sample(&settings, owner, data) else { continue };
        assert!(gift.value.as_ref().is_none_or(|value| value.amount < 1 << 53));
        assert!((1..=64).contains(&gift.user.id.len()) && (1..=1_000_000).contains(&gift.count));
        let again = sources::map::parse(&post).expect("the post of a gift");
        assert_eq!((again.id, again.fingerprint), (gift.id, gift.fingerprint));
    }
});
