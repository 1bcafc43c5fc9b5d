//! Gifts as producers may send them: never panics, and what is taken keeps to the contract.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tipcast::domain::{Gift, json};

fuzz_target!(|data: &[u8]| {
    let Ok(raw) = json::syntax(data) else { return };
    let gift = match Gift::parse(raw, None) {
        Ok(gift) => gift,
        Err(refused) => {
            assert!(!format!("{refused:?}").is_empty());
            return;
        }
    };
    let shown = |text: &str| !text.trim().is_empty() && !text.chars().any(char::is_control);
    assert!((1..=64).contains(&gift.user.id.len()) && (1..=64).contains(&gift.gift.id.len()));
    // An empty name shows the id, which is any content.
    assert!(gift.user.name == gift.user.id || shown(&gift.user.name), "{:?}", gift.user.name);
    assert!(gift.gift.name == gift.gift.id || shown(&gift.gift.name), "{:?}", gift.gift.name);
    assert!(gift.message.as_deref().is_none_or(shown), "{:?}", gift.message);
    assert!((1..=1_000_000).contains(&gift.count) && gift.tier.is_none_or(|tier| tier <= 9));
    assert!(gift.value.as_ref().is_none_or(|value| value.amount < 1 << 53));
    // What watchers get is JSON in one line.
    for text in [Some(gift.user.to_json()), Some(gift.gift.to_json()), gift.meta.clone()].into_iter().flatten() {
        assert!(json::syntax(text.as_bytes()).is_ok(), "{text}");
        assert!(!text.contains(['\n', '\r']), "{text}");
    }
    if data.windows(4).any(|four| four == b"\"id\"") && raw.get().contains("\"id\"") {
        // A retry is the same gift.
        let again = Gift::parse(raw, Some(gift.id.clone()));
        if let Ok(again) = again {
            assert_eq!(again.fingerprint, gift.fingerprint);
        }
    }
});
