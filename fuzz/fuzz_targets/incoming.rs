//! The reader of client frames: never panics, keeps its bounds, and understands the same whatever the
//! sizes of the pieces that a stream comes in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tipcast::http::watch::incoming::{Incoming, Reader, Rules};

/// Small, so that short inputs reach the limit.
const MOST: u32 = 300;

fuzz_target!(|data: &[u8]| {
    // Two bytes say how it is read: by which rules, in pieces of which size.
    let Some((&[rules, piece], stream)) = data.split_first_chunk() else { return };
    let rules = Rules { most: MOST, binary: rules & 1 != 0, deflate: rules & 2 != 0 };
    let whole = read(rules, stream, stream.len().max(1));
    let pieces = read(rules, stream, usize::from(piece).max(1));
    assert_eq!(whole, pieces, "the pieces change what is understood");
});

fn read(rules: Rules, stream: &[u8], piece: usize) -> Vec<String> {
    let mut reader = Reader::new(rules);
    let (mut said, mut refused) = (Vec::new(), false);
    for mut part in stream.chunks(piece) {
        while let Some(incoming) = reader.read(&mut part) {
            match &incoming {
                Ok(Incoming::Text(text)) => assert!(text.len() <= rules.most && !refused),
                Ok(Incoming::Binary(bytes)) => assert!(rules.binary && bytes.len() <= rules.most && !refused),
                Ok(Incoming::Ping(payload)) => assert!(payload.len() <= 125 && !refused),
                Ok(Incoming::Pong) => assert!(!refused),
                Ok(Incoming::Close(_)) | Err(_) => {}
            }
            refused |= incoming.is_err();
            said.push(format!("{incoming:?}"));
            // Nothing that follows a close frame is read.
            if matches!(incoming, Ok(Incoming::Close(_))) {
                return said;
            }
        }
        assert!(part.is_empty(), "bytes are left although nothing is whole");
    }
    said
}
