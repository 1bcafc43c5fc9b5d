//! How Tipcast is spoken to: the contract's words, read by their first bytes.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use memchr::memmem;
use serde_json::Value;

use crate::BenchError;
use crate::control::Control;
use crate::dialect::{Answer, Dialect, Greeting, Meaning, Sample, digits, http_answer, mark};
use crate::options::Target;

/// A gateway.
#[derive(Debug)]
pub struct Tipcast {
    /// `Host`, and the producer's key.
    head: String,
    /// What watchers show, as a line of their heads; empty when nothing.
    shown: String,
    host: String,
    /// What the path begins with, when the gateway stands below one.
    below: String,
    name: String,
    /// What makes the ids of this run new.
    run: String,
    flush_ms: Option<u64>,
    control: RefCell<Control>,
    /// Looks for `"seq":`; kept, since making one costs more than using it.
    seqs: memmem::Finder<'static>,
}

/// How the metric begins that counts reads of lists.
const LIST_READS: &str = "tipcast_engine_call_seconds_count{operation=\"snapshot\"} ";

/// Gifts of one batch.
const BATCH_MOST: u64 = 128;

impl Tipcast {
    /// The gateway at `target`; its feeds are `name-0`, `name-1` and so on.
    pub fn new(target: &Target, below: &str, name: &str, key: Option<&str>) -> Tipcast {
        let host = &target.host;
        let mut head = format!("host: {host}\r\n");
        if let Some(key) = key {
            head.push_str(&format!("authorization: Bearer {key}\r\n"));
        }
        Tipcast {
            control: RefCell::new(Control::new(target.clone(), head.clone())),
            seqs: memmem::Finder::new(b"\"seq\":"),
            head,
            shown: String::new(),
            host: host.to_owned(),
            below: below.trim_end_matches('/').to_owned(),
            name: name.to_owned(),
            run: format!(
                "{:x}",
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
            ),
            flush_ms: None,
        }
    }

    /// Sets the feeds' `flush_ms`; without, they have the server's.
    pub fn flushing(mut self, flush_ms: Option<u64>) -> Tipcast {
        self.flush_ms = flush_ms;
        self
    }

    /// Has watchers show a viewer's token, and the feeds be private.
    pub fn private(mut self, token: Option<&str>) -> Tipcast {
        self.shown = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        self
    }

    fn path(&self, feed: usize) -> String {
        format!("{}/v1/feeds/{}-{feed}", self.below, self.name)
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<Value, BenchError> {
        let (status, answer) = self.control.borrow_mut().ask(method, path, body)?;
        if !(200..300).contains(&status) {
            let said = String::from_utf8_lossy(&answer);
            return Err(BenchError::Server(format!("{method} {path} gets {status}: {said}")));
        }
        serde_json::from_slice(&answer)
            .map_err(|e| BenchError::Server(format!("{method} {path} gets no JSON: {e}")))
    }

    fn list(&self, feed: usize) -> Result<Value, BenchError> {
        self.ask("GET", &self.path(feed), "")
    }

    fn gift(&self, feed: usize, n: u64, out: &mut String) {
        use std::fmt::Write;
        let (run, user) = (&self.run, n % 500);
        let _ = write!(
            out,
            "{{\"id\":\"b{run}-{feed}-{n}\",\"user\":{{\"id\":\"viewer-{user:04}\",\"name\":\"Viewer {user:04}\"}},\
             \"gift\":{{\"id\":\"rose\",\"name\":\"Rose\"}},\"value\":{{\"amount\":150,\"currency\":\"EUR\"}},\
             \"message\":\"{}\"}}",
            mark(n)
        );
    }
}

impl Dialect for Tipcast {
    fn prepare(&self, feeds: usize) -> Result<Vec<u64>, BenchError> {
        let mut policy = serde_json::json!({ "dedup": "off" });
        if !self.shown.is_empty() {
            policy["visibility"] = "private".into();
        }
        if let Some(flush_ms) = self.flush_ms {
            policy["flush_ms"] = flush_ms.into();
        }
        let stand = |feed| {
            self.ask("PUT", &format!("{}/policy", self.path(feed)), &policy.to_string())?;
            let mut list = self.list(feed)?;
            if list["epoch"] == "0" {
                // Its first gift would reach watchers as a list. This one has mark 0, which belongs to no producer.
                let mut gift = String::new();
                self.gift(feed, 0, &mut gift);
                self.ask("POST", &format!("{}/gifts", self.path(feed)), &gift)?;
                list = self.list(feed)?;
            }
            list["seq"].as_u64().ok_or_else(|| BenchError::Server("a list without a seq".into()))
        };
        (0..feeds).map(stand).collect()
    }

    fn watch(&self, feed: usize, out: &mut Vec<u8>) {
        let (path, host, shown) = (self.path(feed), &self.host, &self.shown);
        out.extend_from_slice(
            format!(
                "GET {path}/ws HTTP/1.1\r\nhost: {host}\r\n{shown}connection: upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-version: 13\r\nsec-websocket-key: dGlwY2FzdCBiZW5jaC4uLg==\r\n\r\n"
            )
            .as_bytes(),
        );
    }

    fn greet(&self, _: usize, _: u8, frame: Option<&[u8]>) -> Greeting {
        match frame.map(|start| self.judge(start)) {
            Some(Meaning::List(_)) => Greeting::Ready,
            _ => Greeting::Wait,
        }
    }

    fn judge(&self, start: &[u8]) -> Meaning {
        let kind = start.strip_prefix(b"{\"type\":\"").unwrap_or_default();
        let mut seqs = self.seqs.find_iter(start).map(|at| number(&start[at + 6..]));
        let mut seq = || seqs.next().unwrap_or_default();
        match kind.first() {
            Some(b'd') => {
                let last = seq();
                Meaning::Changes(seq(), last)
            }
            Some(b's') => Meaning::List(seq()),
            Some(b'g' | b'e') => Meaning::Over(String::from_utf8_lossy(start).into_owned()),
            _ => Meaning::Nothing,
        }
    }

    fn publish(&self, feed: usize, marks: RangeInclusive<u64>, out: &mut Vec<u8>) {
        let (from, to) = (*marks.start(), *marks.end());
        let mut body = String::with_capacity(256);
        let path = if from == to {
            self.gift(feed, from, &mut body);
            "gifts"
        } else {
            body.push_str("{\"gifts\":[");
            for n in marks {
                self.gift(feed, n, &mut body);
                body.push(if n == to { ']' } else { ',' });
            }
            body.push('}');
            "gifts/batch"
        };
        let (above, head, length) = (self.path(feed), &self.head, body.len());
        out.extend_from_slice(
            format!(
                "POST {above}/{path} HTTP/1.1\r\n{head}content-type: application/json\r\n\
                 content-length: {length}\r\n\r\n{body}"
            )
            .as_bytes(),
        );
    }

    fn answer(&self, bytes: &[u8]) -> Answer {
        let Some((status, from, to)) = http_answer(bytes) else { return Answer::Partial };
        let body = &bytes[from..to];
        let (taken, refused) = match status {
            201 => (1, 0),
            200 if body.starts_with(b"{\"accepted\":") => {
                let taken = number(&body[12..]).min(BATCH_MOST) as u32;
                let all = memmem::find_iter(body, b"{\"index\":").count() as u32;
                (taken, all.saturating_sub(taken))
            }
            _ => (0, 1),
        };
        Answer::Done { bytes: to, taken, refused }
    }

    fn stands_at(&self, feed: usize) -> Option<Result<u64, BenchError>> {
        let seq = |list: Value| list["seq"].as_u64().unwrap_or_default();
        Some(self.list(feed).map(seq))
    }

    fn store_reads(&self) -> Option<u64> {
        let asked = self.control.borrow_mut().ask("GET", &format!("{}/metrics", self.below), "");
        let (_, text) = asked.ok().filter(|(status, _)| *status == 200)?;
        let text = String::from_utf8_lossy(&text);
        text.lines().find_map(|line| line.strip_prefix(LIST_READS)?.trim().parse().ok())
    }

    fn samples(&self) -> bool {
        true
    }

    fn examine(&self, sample: &mut Sample, text: &[u8]) -> Option<String> {
        let Ok(frame) = serde_json::from_slice::<Value>(text) else {
            // A pong's or ping's payload; data frames of ours are JSON, which their start showed.
            return text.starts_with(b"{").then(|| "a frame is no JSON".to_owned());
        };
        let row_of = |row: &Value| row["row"].as_str().unwrap_or_default().to_owned();
        match frame["type"].as_str() {
            Some("snapshot") => {
                sample.seq = frame["seq"].as_u64()?;
                sample.capacity = frame["capacity"].as_u64()? as usize;
                sample.rows = frame["rows"].as_array()?.iter().map(row_of).collect();
            }
            Some("delta") => {
                for op in frame["ops"].as_array().into_iter().flatten() {
                    let seq = op["seq"].as_u64();
                    if seq != Some(sample.seq + 1) {
                        return Some(format!("op {seq:?} came after {}", sample.seq));
                    }
                    sample.seq += 1;
                    if op["op"] != "add" || op["row"]["seq"].as_u64() != seq {
                        return Some(format!("op {} is no new row: {op}", sample.seq));
                    }
                    sample.rows.insert(0, row_of(&op["row"]));
                    sample.rows.truncate(sample.capacity);
                }
                if frame["seq"].as_u64() != Some(sample.seq) {
                    return Some(format!("a delta's ops end at {}, not at {}", sample.seq, frame["seq"]));
                }
            }
            _ => {}
        }
        None
    }

    fn compare(&self, feed: usize, sample: &Sample) -> Option<String> {
        let list = match self.list(feed) {
            Ok(list) => list,
            Err(error) => return Some(error.to_string()),
        };
        let rows: Vec<&str> = list["rows"].as_array()?.iter().filter_map(|row| row["row"].as_str()).collect();
        (list["seq"].as_u64() != Some(sample.seq) || rows != sample.rows)
            .then(|| format!("a watcher's list at {} is not the server's at {}", sample.seq, list["seq"]))
    }
}

/// The number that `bytes` begin with.
#[inline]
fn number(bytes: &[u8]) -> u64 {
    let length = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits(&bytes[..length.min(19)]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway() -> Tipcast {
        let address = "127.0.0.1:1".parse().unwrap();
        let target = Target { address, host: "127.0.0.1:1".into(), encryption: None };
        Tipcast::new(&target, "", "bench", Some("a-key"))
    }

    #[test]
    fn sent_gifts_keep_the_contract_and_have_one_mark() {
        let mut out = vec![];
        gateway().publish(3, 7..=7, &mut out);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/feeds/bench-3/gifts HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("authorization: Bearer a-key\r\n"), "{head}");
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
        let gift: Value = serde_json::from_str(body).unwrap();
        assert_eq!(gift["message"], "~0000000007");
        assert_eq!(body.matches('~').count(), 1);
    }

    #[test]
    fn a_batch_is_one_json_text_with_a_mark_for_each_gift() {
        let mut out = vec![];
        gateway().publish(0, 10..=12, &mut out);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/feeds/bench-0/gifts/batch HTTP/1.1\r\n"), "{head}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["gifts"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn frames_are_understood_by_their_start() {
        let judge = |text: &str| gateway().judge(text.as_bytes());
        let delta = r#"{"type":"delta","feed":"bench-0","seq":12,"ops":[{"op":"add","seq":11,"row":{"ro"#;
        assert_eq!(judge(delta), Meaning::Changes(11, 12));
        let list = r#"{"type":"snapshot","feed":"bench-0","epoch":"e1","seq":40,"capacity":10,"rows":["#;
        assert_eq!(judge(list), Meaning::List(40));
        assert_eq!(judge(r#"{"type":"keepalive","feed":"bench-0","seq":40}"#), Meaning::Nothing);
        assert!(matches!(judge(r#"{"type":"goodbye","reason":"shutdown"}"#), Meaning::Over(_)));
    }

    #[test]
    fn answers_say_how_many_gifts_were_taken() {
        let http = |status: &str, body: &str| {
            format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
        };
        let counted = |bytes: Vec<u8>| match gateway().answer(&bytes) {
            Answer::Done { taken, refused, .. } => (taken, refused),
            other => panic!("{other:?}"),
        };
        assert_eq!(counted(http("201 Created", "{\"status\":\"accepted\"}")), (1, 0));
        assert_eq!(counted(http("503 x", "{}")), (0, 1));
        let batch = "{\"accepted\":2,\"merged\":0,\"results\":[{\"index\":0},{\"index\":1},{\"index\":2}]}";
        assert_eq!(counted(http("200 OK", batch)), (2, 1));
        assert_eq!(gateway().answer(b"HTTP/1.1 201 "), Answer::Partial);
    }

    #[test]
    fn a_sampled_watcher_notices_a_missing_op_and_folds_the_rest() {
        let (gateway, mut sample) = (gateway(), Sample::default());
        let list = r#"{"type":"snapshot","seq":4,"capacity":2,"rows":[{"row":"b"},{"row":"a"}]}"#;
        assert_eq!(gateway.examine(&mut sample, list.as_bytes()), None);
        let delta = |seq: u64| {
            format!(
                "{{\"type\":\"delta\",\"seq\":{seq},\"ops\":[{{\"op\":\"add\",\"seq\":{seq},\"row\":{{\"row\":\"r{seq}\",\"seq\":{seq}}}}}]}}"
            )
        };
        assert_eq!(gateway.examine(&mut sample, delta(5).as_bytes()), None);
        assert_eq!((sample.seq, sample.rows.join(" ")), (5, "r5 b".to_owned()));
        assert!(gateway.examine(&mut sample, delta(7).as_bytes()).is_some());
    }
}
