//! Sends a batch to an endpoint and says what became of it.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, Response, Url};

use crate::domain::address::is_public;
use crate::domain::attempt::RESPONSE_MAX;
use crate::domain::delivery::Verdict;
use crate::domain::signature::Signers;
use crate::domain::{Entry, FeedId, HookSpec, Millis, Trace, json};
use crate::outbound;

/// What is read of an answer, so that its connection can be used again. Beyond, the connection is closed.
const ANSWER_BYTES: usize = 64 << 10;

/// Idle connections that are kept for each endpoint.
const MAX_IDLE_CONNECTIONS: usize = 32;

/// How long such a connection is kept. Shorter than what servers usually keep them, or a batch now and then
/// meets one that has just been closed.
const IDLE_FOR: Duration = Duration::from_secs(4);

/// The body of a delivery.
pub fn body(feed: &FeedId, batch: &str, round: u64, entries: &[&Entry]) -> Bytes {
    let mut out = String::with_capacity(96 + entries.iter().map(|it| it.gift.len() + 320).sum::<usize>());
    out.push_str("{\"type\":\"entries\",\"feed\":");
    json::push_string(&mut out, feed.as_str());
    out.push_str(",\"batch\":");
    json::push_string(&mut out, batch);
    out.push_str(",\"entries\":[");
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        entry.push_json(&mut out, feed, Some(round));
    }
    out.push_str("]}");
    out.into()
}

/// What came of an attempt.
pub struct Sent {
    pub verdict: Verdict,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// The beginning of its body.
    pub response: Option<String>,
}

impl Sent {
    fn failed(why: String) -> Sent {
        Sent { verdict: Verdict::Failed(why, None), status: None, response: None }
    }

    /// Why it failed, if it did.
    pub fn error(&self) -> Option<String> {
        match &self.verdict {
            Verdict::Accepted => None,
            Verdict::Gone => Some("the endpoint answered 410: gone".to_owned()),
            Verdict::TooLarge => Some("the endpoint answered 413: the batch is too large".to_owned()),
            Verdict::Refused(why) | Verdict::Failed(why, _) => Some(why.clone()),
        }
    }
}

/// Sends. One for all endpoints.
#[derive(Clone, Debug)]
pub struct Sender {
    client: Client,
    allow_private: bool,
    timeout: Duration,
}

impl Sender {
    /// With so long for each attempt, connecting included; to private addresses only if allowed.
    pub fn new(timeout: Duration, allow_private: bool) -> Result<Sender, reqwest::Error> {
        // Without a proxy: one would look names up by itself, and reach what is not to be reached.
        let client = outbound::client(|builder| {
            builder
                .user_agent(concat!("Tipcast/", env!("CARGO_PKG_VERSION")))
                .dns_resolver(PublicResolver { allow_private })
                .timeout(timeout)
                .connect_timeout(timeout)
                .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
                .pool_idle_timeout(IDLE_FOR)
        })?;
        Ok(Sender { client, allow_private, timeout })
    }

    /// One attempt at `now`, as this step of a trace.
    pub async fn send(
        &self,
        spec: &HookSpec,
        signers: Signers<'_>,
        id: &str,
        body: Bytes,
        now: Millis,
        trace: Option<Trace>,
    ) -> Sent {
        let failed = Sent::failed;
        let Ok(url) = Url::parse(&spec.url) else { return failed("the URL cannot be read".into()) };
        if let Some(why) = self.forbidden(&url) {
            return failed(why);
        }
        let mut request = self.client.post(url).header(CONTENT_TYPE, "application/json");
        for (name, value) in &spec.headers {
            request = request.header(name, value);
        }
        for (name, value) in signers.headers(id, now, &body) {
            request = request.header(name, value);
        }
        request = request.body(body);
        if let Some(Trace { step, state }) = trace {
            request = request.header("traceparent", step.to_string());
            if let Some(state) = state {
                request = request.header("tracestate", state.as_str());
            }
        }
        match request.send().await {
            Ok(answer) => {
                let status = answer.status().as_u16();
                let verdict = judge(status, answer.headers());
                Sent { verdict, status: Some(status), response: drain(answer).await }
            }
            Err(error) if error.is_timeout() => {
                failed(format!("the endpoint did not answer within {} ms", self.timeout.as_millis()))
            }
            Err(error) => failed(format!("the endpoint cannot be reached: {}", outbound::root_cause(&error))),
        }
    }

    /// Why nothing is sent to an address that the URL itself has. Names are checked when they are looked up.
    fn forbidden(&self, url: &Url) -> Option<String> {
        let ip: IpAddr = match url.host()? {
            url::Host::Domain(_) => return None,
            url::Host::Ipv4(ip) => ip.into(),
            url::Host::Ipv6(ip) => ip.into(),
        };
        (!self.allow_private && !is_others(ip)).then(|| Private(ip).to_string())
    }
}

/// Looks names up, and leaves out addresses that are not to be reached.
#[derive(Clone, Copy, Debug)]
struct PublicResolver {
    allow_private: bool,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            if allow_private {
                return Ok(Box::new(found?.collect::<Vec<_>>().into_iter()) as Addrs);
            }
            let mut public: Vec<SocketAddr> = found.into_iter().flatten().collect();
            public.retain(|at| is_others(at.ip()));
            match public.is_empty() {
                true => Err(NoPublicName.into()),
                false => Ok(Box::new(public.into_iter()) as Addrs),
            }
        })
    }
}

/// Whether an address is public and not this machine's own: behind that is the gateway itself, and whatever
/// else listens here.
fn is_others(ip: IpAddr) -> bool {
    is_public(ip) && !outbound::is_own(ip)
}

/// An address that is not to be reached.
#[derive(Debug)]
struct Private(IpAddr);

impl std::fmt::Display for Private {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Private(ip) = self;
        write!(f, "{ip} is no public address of another machine, and [webhooks] allow_private is off")
    }
}

/// A name that is not to be reached, or that there is not. Which of them is not said, nor any address: who may set
/// webhooks would learn what there is in the operator's network.
#[derive(Debug)]
struct NoPublicName;

impl std::fmt::Display for NoPublicName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "there is no public address of another machine for this name (it is unknown or private), and [webhooks] \
             allow_private is off",
        )
    }
}

impl Error for NoPublicName {}

/// What the endpoint means by this answer.
fn judge(status: u16, headers: &HeaderMap) -> Verdict {
    let failed = |asked| Verdict::Failed(format!("the endpoint answered {status}"), asked);
    match status {
        200..=299 => Verdict::Accepted,
        300..=399 => {
            Verdict::Failed(format!("the endpoint answered {status}; redirects are not followed"), None)
        }
        410 => Verdict::Gone,
        413 => Verdict::TooLarge,
        429 | 503 => failed(headers.get(RETRY_AFTER).and_then(|it| asked(it.to_str().ok()?, Millis::now()))),
        408 | 425 => failed(None),
        400..=499 => Verdict::Refused(format!("the endpoint answered {status}")),
        _ => failed(None),
    }
}

/// `Retry-After`, in milliseconds: seconds, or a date.
fn asked(text: &str, now: Millis) -> Option<u64> {
    if let Ok(seconds) = text.trim().parse::<u64>() {
        return Some(seconds.saturating_mul(1_000));
    }
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    let since_1970 = date.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis());
    Some(Millis(i64::try_from(since_1970).unwrap_or(i64::MAX)).since(now))
}

/// Reads what is left of a small answer, and gives its beginning. An error there changes nothing: the status has been said.
async fn drain(mut answer: Response) -> Option<String> {
    let (mut read, mut begin) = (0, Vec::new());
    while let Ok(Some(chunk)) = answer.chunk().await {
        read += chunk.len();
        let room = RESPONSE_MAX - begin.len();
        begin.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if read > ANSWER_BYTES {
            break;
        }
    }
    let text = String::from_utf8_lossy(&begin).replace(|c: char| c.is_control() && c != '\n', " ");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Delivery;
    use crate::domain::signature::SigningKey;

    async fn send(sender: &Sender, url: &str) -> Verdict {
        let key = SigningKey::read(&SigningKey::spell(&[7; 32])).unwrap();
        let (delivery, secret) = (Delivery::AtLeastOnce, String::new());
        let (types, headers) = (Vec::new(), [].into());
        let (batch_max, batch_ms, max_age_ms) = (1, 0, 0);
        let spec =
            HookSpec { url: url.into(), secret, batch_max, batch_ms, max_age_ms, delivery, types, headers };
        let signers = Signers { secrets: &[], key: Some(&key) };
        sender.send(&spec, signers, "m", Bytes::new(), Millis(0), None).await.verdict
    }

    #[test]
    fn every_answer_has_its_meaning() {
        let of = |status| judge(status, &HeaderMap::new());
        for status in [200, 201, 204, 299] {
            assert_eq!(of(status), Verdict::Accepted, "{status}");
        }
        for status in [301, 302, 304, 307, 308, 408, 425, 429, 500, 502, 503, 504, 599, 100] {
            assert!(matches!(of(status), Verdict::Failed(_, None)), "{status}");
        }
        for status in [400, 401, 403, 404, 405, 409, 411, 418, 422, 451, 499] {
            assert!(matches!(of(status), Verdict::Refused(_)), "{status}");
        }
        assert_eq!((of(410), of(413)), (Verdict::Gone, Verdict::TooLarge));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = Millis::parse("2026-11-21T12:00:00Z").unwrap();
        assert_eq!(asked("120", now), Some(120_000));
        assert_eq!(asked("Sat, 21 Nov 2026 12:01:00 GMT", now), Some(60_000));
        assert_eq!(asked("Sat, 21 Nov 2026 11:00:00 GMT", now), Some(0));
        assert_eq!((asked("soon", now), asked("-1", now)), (None, None));
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, "7".parse().unwrap());
        assert!(matches!(judge(503, &headers), Verdict::Failed(_, Some(7_000))));
        assert!(matches!(judge(500, &headers), Verdict::Failed(_, None)), "only 429 and 503 are asked to");
    }

    #[tokio::test]
    async fn private_addresses_are_not_reached_by_number_or_by_name() {
        let sender = Sender::new(Duration::from_secs(5), false).unwrap();
        for url in ["http://127.0.0.1:9/", "http://[::1]:9/", "http://localhost:9/", "http://0x7f.1:9/"] {
            let verdict = send(&sender, url).await;
            let Verdict::Failed(why, None) = verdict else { panic!("{url}: {verdict:?}") };
            assert!(why.contains("no public address"), "{url}: {why}");
        }
    }

    #[tokio::test]
    async fn a_private_name_and_one_that_there_is_not_fail_alike() {
        let sender = Sender::new(Duration::from_secs(20), false).unwrap();
        let mut sent = Vec::new();
        for url in ["http://localhost:9/", "http://nobody.invalid:9/"] {
            let verdict = send(&sender, url).await;
            let Verdict::Failed(why, None) = verdict else { panic!("{url}: {verdict:?}") };
            assert!(!why.contains("127.0.0.1") && !why.contains("::1"), "{why}");
            sent.push(why);
        }
        assert_eq!(sent[0], sent[1]);
    }
}
