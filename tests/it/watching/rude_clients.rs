//! What a client sends that it should not, and the close codes it gets.

use futures_util::{SinkExt, StreamExt};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::many::Many;
use crate::support::watcher::{Socket, open_socket};

on_both_stores_and_over_tls![
    a_wrong_handshake_is_a_problem,
    a_binary_frame_closes_with_1003,
    a_frame_over_four_kib_closes_with_1009,
    a_huge_frame_closes_with_1009_without_being_read_whole,
    fragments_over_four_kib_close_with_1009,
    text_that_is_no_utf8_closes_with_1007,
    four_kib_exactly_and_fragments_of_a_command_are_read,
    a_ping_is_answered_with_its_payload,
    a_close_is_answered_with_a_close,
    clients_that_vanish_leave_the_others_in_peace,
];

const PATHS: [&str; 2] = ["/v1/ws", "/v1/feeds/show/ws"];

async fn close_code(mut socket: Socket) -> Option<u16> {
    let last = async {
        while let Some(next) = socket.next().await {
            match next {
                Ok(Message::Close(frame)) => return frame.map(|f| f.code.into()),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
        None
    };
    timeout(PATIENCE, last).await.expect("a close in time")
}

async fn closes_with(frames: &[Message], code: u16) {
    let app = TestApp::start().await;
    for path in PATHS {
        let mut socket = open_socket(&app, path, None).await.unwrap();
        for frame in frames {
            let _ = socket.send(frame.clone()).await;
        }
        assert_eq!(close_code(socket).await, Some(code), "{path}");
    }
}

async fn a_binary_frame_closes_with_1003() {
    closes_with(&[Message::binary(vec![1, 2, 3])], 1003).await;
}

async fn a_frame_over_four_kib_closes_with_1009() {
    closes_with(&[Message::text("x".repeat(4_097))], 1009).await;
}

async fn a_huge_frame_closes_with_1009_without_being_read_whole() {
    closes_with(&[Message::text("x".repeat(4_000_000))], 1009).await;
}

async fn fragments_over_four_kib_close_with_1009() {
    let part = |code, end| Message::Frame(Frame::message(vec![b'x'; 3_000], OpCode::Data(code), end));
    closes_with(&[part(Data::Text, false), part(Data::Continue, true)], 1009).await;
}

async fn text_that_is_no_utf8_closes_with_1007() {
    let bad = Message::Frame(Frame::message(vec![b'a', 0xff, 0xfe], OpCode::Data(Data::Text), true));
    closes_with(&[bad], 1007).await;
}

async fn four_kib_exactly_and_fragments_of_a_command_are_read() {
    let app = TestApp::start().await;
    let mut many = Many::open(&app).await;
    let command = "{\"type\":\"subscribe\",\"feed\":\"a\"}";
    let padded = format!("{command}{}", " ".repeat(4_096 - command.len()));
    many.subscribe("a").await;
    many.wait_until("a list", |m| m.fold("a").snapshots == 1).await;
    many.unsubscribe("a").await;
    many.wait_until("its end", |m| m.unsubscribed == ["a"]).await;
    many.unsubscribed.clear();
    let mut fold = many.fold("a").clone();
    fold.connected(None);
    many.folds.insert("a".into(), fold.clone());
    many.say(&padded).await;
    many.wait_until("a list", |m| m.fold("a").snapshots == 2).await;
    many.unsubscribe("a").await;
    many.wait_until("its end", |m| m.unsubscribed == ["a"]).await;
    many.unsubscribed.clear();
    fold.connected(None);
    many.folds.insert("a".into(), fold);
    let part = |text: &str, code, end| {
        Message::Frame(Frame::message(text.as_bytes().to_vec(), OpCode::Data(code), end))
    };
    many.socket.send(part(&command[..10], Data::Text, false)).await.unwrap();
    many.socket.send(Message::Ping("between".into())).await.unwrap();
    many.socket.send(part(&command[10..], Data::Continue, true)).await.unwrap();
    many.wait_until("a list", |m| m.fold("a").snapshots == 2).await;
    assert_eq!(many.errors.len(), 0);
}

async fn a_ping_is_answered_with_its_payload() {
    let app = TestApp::start().await;
    for path in PATHS {
        let mut socket = open_socket(&app, path, None).await.unwrap();
        socket.send(Message::Ping("are you there".into())).await.unwrap();
        let pong = async {
            loop {
                if let Message::Pong(payload) = socket.next().await.unwrap().unwrap() {
                    return payload;
                }
            }
        };
        assert_eq!(timeout(PATIENCE, pong).await.expect("a pong in time"), "are you there");
    }
}

async fn a_close_is_answered_with_a_close() {
    let app = TestApp::start().await;
    for path in PATHS {
        let mut socket = open_socket(&app, path, None).await.unwrap();
        let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        socket.send(Message::Close(Some(frame))).await.unwrap();
        assert_eq!(close_code(socket).await, Some(1000), "{path}");
    }
}

async fn a_wrong_handshake_is_a_problem() {
    let app = TestApp::start().await;
    let good = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for path in PATHS {
        for (name, value) in [
            ("sec-websocket-version", Some("8")),
            ("sec-websocket-version", None),
            ("sec-websocket-key", None),
            ("upgrade", Some("h2c")),
            ("connection", Some("keep-alive")),
        ] {
            // A refused handshake may end the connection: each has its own.
            let mut request = Api::at(app.url()).request("GET", path);
            for (known, right) in good {
                let sent = if known == name { value } else { Some(right) };
                if let Some(sent) = sent {
                    request = request.header(known, sent);
                }
            }
            let said =
                Api::try_send(request).await.unwrap_or_else(|e| panic!("{path} {name} {value:?}: {e:?}"));
            assert!((400..500).contains(&said.status), "{name} {value:?}: {said:?}");
            said.problem(said.status);
        }
    }
}

async fn clients_that_vanish_leave_the_others_in_peace() {
    let app = TestApp::start().await;
    let mut watcher = app.watch("show").await;
    for n in 0..30 {
        let (one, two) = (app.watch("show").await, Many::open(&app).await);
        app.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
        drop((one, two));
    }
    watcher.wait_for_the_list().await;
    assert_eq!(watcher.fold.seq(), 30);
}
