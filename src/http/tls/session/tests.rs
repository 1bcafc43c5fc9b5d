use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use std::io::{Read, Write};

use super::*;

/// A client beside a connection of ours.
struct Pair {
    client: ClientConnection,
    ours: Tls,
    /// What was answered.
    heard: Vec<u8>,
}

impl Pair {
    fn new(version: &'static SupportedProtocolVersion) -> Pair {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let provider = Arc::new(ring::default_provider());
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(client), name).unwrap();
        Pair { client, ours: Tls::new(Arc::new(server)).unwrap(), heard: Vec::new() }
    }

    /// After the handshake, whose bytes came in pieces of this size.
    fn open(version: &'static SupportedProtocolVersion, piece: usize) -> Pair {
        let mut pair = Pair::new(version);
        while pair.client.is_handshaking() || pair.ours.is_opening() {
            let heard = pair.send(piece);
            assert!(matches!(heard, Heard::Handshake | Heard::Open), "{heard:?}");
            pair.fetch();
        }
        assert_eq!(pair.ours.secured(), Some(Secured::Full));
        pair
    }

    /// What the client has to say, encrypted.
    fn said(&mut self) -> Vec<u8> {
        let mut said = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut said).unwrap();
        }
        said
    }

    /// Brings us what the client has to say, in pieces.
    fn send(&mut self, piece: usize) -> Heard {
        let mut said = self.said();
        let mut stands = Heard::Handshake;
        for bytes in said.chunks_mut(piece) {
            stands = self.ours.receive(bytes, |plain| self.heard.extend_from_slice(plain));
        }
        stands
    }

    /// Brings the client what we have to say.
    fn fetch(&mut self) {
        let mut wire = Vec::new();
        assert!(self.ours.flush(|bytes| wire.write(bytes)).unwrap());
        self.hear(&wire);
    }

    fn hear(&mut self, mut wire: &[u8]) {
        while !wire.is_empty() {
            self.client.read_tls(&mut wire).unwrap();
            self.client.process_new_packets().unwrap();
        }
    }

    /// What the client got since.
    fn received(&mut self) -> Vec<u8> {
        let mut received = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = self.client.reader().read(&mut buffer) {
            received.extend_from_slice(&buffer[..n]);
        }
        received
    }
}

fn blocked() -> io::Error {
    ErrorKind::WouldBlock.into()
}

#[test]
fn bytes_may_come_in_pieces_of_any_size_and_an_idle_connection_keeps_none() {
    for version in [&TLS13, &TLS12] {
        for piece in [1, 5, 100, 100_000] {
            let mut pair = Pair::open(version, piece);
            let text: Vec<u8> = (0..40_000).map(|n| n as u8).collect();
            for part in text.chunks(10_000) {
                pair.client.writer().write_all(part).unwrap();
                assert_eq!(pair.send(piece), Heard::Open);
            }
            assert_eq!(pair.heard, text);
            assert_eq!((pair.ours.partial.capacity(), pair.ours.unsent.capacity()), (0, 0));
        }
    }
}

#[test]
fn bytes_a_socket_refuses_go_out_later_in_order() {
    let mut pair = Pair::open(&TLS13, 100_000);
    let text: Vec<u8> = (0..100_000_u32).map(|n| (n / 7) as u8).collect();
    let (mut wire, mut done) = (Vec::new(), 0);
    while done < text.len() || !pair.ours.is_flushed() {
        // Two small writes are taken, then none, each time it is tried.
        let mut writes = 0;
        let take = |bytes: &[u8]| {
            writes += 1;
            if writes > 2 {
                return Err(blocked());
            }
            wire.extend_from_slice(&bytes[..bytes.len().min(3000)]);
            Ok(bytes.len().min(3000))
        };
        match done < text.len() {
            true => done += pair.ours.write(&text[done..], take).unwrap(),
            false => _ = pair.ours.flush(take).unwrap(),
        }
        assert!(pair.ours.unsent.len() <= MAX_SEALED_BYTES, "at most a record is kept");
    }
    let mut received = Vec::new();
    for bytes in wire.chunks(5000) {
        pair.hear(bytes);
        received.extend(pair.received());
    }
    assert_eq!(received, text);
}

#[test]
fn tickets_go_out_with_the_first_answer_in_one_write() {
    let mut pair = Pair::new(&TLS13);
    pair.send(100_000);
    pair.fetch();
    pair.client.writer().write_all(b"question").unwrap();
    assert_eq!(pair.send(100_000), Heard::Open);
    assert!(!pair.ours.is_flushed() && pair.heard == b"question");
    let mut writes = Vec::new();
    let write = |bytes: &[u8]| {
        writes.push(bytes.to_vec());
        Ok(bytes.len())
    };
    assert_eq!(pair.ours.write(b"answer", write).unwrap(), 6);
    assert_eq!(writes.len(), 1);
    pair.hear(&writes[0]);
    assert_eq!((pair.received(), pair.client.tls13_tickets_received()), (b"answer".to_vec(), 2));
}

#[test]
fn the_end_is_said_once_whoever_says_it_first() {
    for client_first in [false, true] {
        for version in [&TLS13, &TLS12] {
            let mut pair = Pair::open(version, 100_000);
            if client_first {
                pair.client.writer().write_all(b"bye").unwrap();
                pair.client.send_close_notify();
                assert_eq!(pair.send(100_000), Heard::Closed);
                assert_eq!(pair.heard, b"bye");
            }
            let mut wire = Vec::new();
            pair.ours.write(b"so long", |bytes| wire.write(bytes)).unwrap();
            for _ in 0..3 {
                pair.ours.close(|bytes| wire.write(bytes)).unwrap();
            }
            pair.client.read_tls(&mut &wire[..]).unwrap();
            assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
            assert_eq!(pair.received(), b"so long");
        }
    }
}

#[test]
fn bytes_other_than_tls_end_the_connection_with_an_alert() {
    for wrong in [
        &b"GET /v1/feeds/show/ws HTTP/1.1\r\n\r\n"[..],
        // A record that says to be longer than records are.
        &[22, 3, 1, 0xff, 0xff, 1, 0, 0, 5],
        &[22, 3, 1, 0, 5, 0, 0, 0, 1, 0],
        &[0; 50],
    ] {
        let mut ours = Pair::new(&TLS13).ours;
        let mut stands = ours.receive(&mut wrong.to_vec(), |_| panic!("it says nothing"));
        for _ in 0..20 {
            // Some of these are a beginning; what follows is not.
            stands = ours.receive(&mut [0xff; 2000], |_| panic!("it says nothing"));
            if stands != Heard::Handshake {
                break;
            }
        }
        assert!(matches!(stands, Heard::Broken | Heard::Closed), "{wrong:?}");
        let mut wire = Vec::new();
        assert!(ours.flush(|bytes| wire.write(bytes)).unwrap());
        assert!(wire.starts_with(&[21, 3]), "an alert: {wire:?}");
        assert_eq!(ours.receive(&mut wrong.to_vec(), |_| ()), Heard::Closed);
        ours.close(|_| panic!("it was said")).unwrap();
    }
}

#[test]
fn a_record_that_was_changed_on_its_way_ends_the_connection() {
    for version in [&TLS13, &TLS12] {
        let mut pair = Pair::open(version, 100_000);
        pair.client.writer().write_all(b"first").unwrap();
        let mut good = pair.said();
        pair.client.writer().write_all(b"second").unwrap();
        let mut bad = pair.said();
        *bad.last_mut().unwrap() ^= 1;
        good.extend(bad);
        let stands = pair.ours.receive(&mut good, |plain| pair.heard.extend_from_slice(plain));
        assert_eq!((stands, &pair.heard[..]), (Heard::Broken, &b"first"[..]));
        assert!(!pair.ours.is_flushed());
    }
}

#[test]
fn keys_may_change_now_and_then_and_a_flood_of_changes_ends_the_connection() {
    let mut pair = Pair::open(&TLS13, 100_000);
    for n in 0..100 {
        pair.client.refresh_traffic_keys().unwrap();
        pair.client.writer().write_all(&[n]).unwrap();
        assert_eq!(pair.send(100_000), Heard::Open);
        let mut wire = Vec::new();
        assert_eq!(pair.ours.write(&[n], |bytes| wire.write(bytes)).unwrap(), 1);
        pair.hear(&wire);
        assert_eq!(pair.received(), [n]);
    }
    assert_eq!(pair.heard, (0..100).collect::<Vec<u8>>());
    let mut stands = Heard::Open;
    for _ in 0..100 {
        pair.client.refresh_traffic_keys().unwrap();
        stands = pair.send(100_000);
        assert!(pair.ours.unsent.len() < 500, "nothing gathers");
        if stands != Heard::Open {
            break;
        }
    }
    assert_eq!(stands, Heard::Broken);
}

#[test]
fn half_a_record_is_kept_and_no_more() {
    let mut pair = Pair::open(&TLS13, 100_000);
    pair.client.writer().write_all(&[7; 16_000]).unwrap();
    let mut said = pair.said();
    let (first, last) = said.split_at_mut(15_000);
    for piece in first.chunks_mut(100) {
        assert_eq!(pair.ours.receive(piece, |_| panic!("it is not whole")), Heard::Open);
    }
    assert_eq!((pair.ours.partial.len(), pair.ours.partial.capacity()), (15_000, 15_000));
    // Meanwhile others are written to.
    let mut wire = Vec::new();
    assert_eq!(pair.ours.write(b"news", |bytes| wire.write(bytes)).unwrap(), 4);
    pair.hear(&wire);
    assert_eq!(pair.received(), b"news");
    pair.ours.receive(last, |plain| pair.heard.extend_from_slice(plain));
    assert_eq!((pair.heard.len(), pair.ours.partial.capacity()), (16_000, 0));
}
