//! The HTTP API as a producer calls it.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

use super::gifts::GiftSpec;

/// A gateway's address, and verbs.
#[derive(Clone, Debug)]
pub struct Api {
    /// Such as `http://127.0.0.1:1234`.
    pub base: String,
    client: Client,
}

/// One answer.
#[derive(Clone, Debug)]
pub struct Said {
    /// The status code.
    pub status: u16,
    /// Every header.
    pub headers: HeaderMap,
    /// The body.
    pub text: String,
}

/// A client of the tests' own, without proxies.
pub fn http() -> reqwest::ClientBuilder {
    // Of no use to them, and yet reqwest asks for one. Another test may have been faster.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy()
}

impl Api {
    /// Of the gateway at `base`.
    pub fn at(base: String) -> Api {
        let client = http().timeout(Duration::from_secs(20)).build().unwrap();
        Api { base, client }
    }

    /// Such as `127.0.0.1:1234`.
    pub fn authority(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    /// A request that is not sent yet.
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        self.client.request(Method::from_bytes(method.as_bytes()).unwrap(), format!("{}{path}", self.base))
    }

    /// Sends it; an error when there is no answer.
    pub async fn try_send(request: RequestBuilder) -> Result<Said, reqwest::Error> {
        let answer = request.send().await?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Ok(Said { status, headers, text: answer.text().await? })
    }

    /// Sends it.
    pub async fn send(request: RequestBuilder) -> Said {
        let said = Api::try_send(request).await.unwrap();
        if said.text.contains("\"event_id\":") {
            // JSON that no float holds is for those tests alone that send it.
            said.text.parse().iter().for_each(super::schema::check_entries);
        }
        said
    }

    /// Any method on any path, with a body of this text if there is one.
    pub async fn call(&self, method: &str, path: &str, body: Option<&str>) -> Said {
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_owned());
        }
        Api::send(request).await
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Said {
        self.call("GET", path, None).await
    }

    /// Posts JSON as it stands.
    pub async fn post_json(&self, feed: &str, gift: &Value) -> Said {
        self.call("POST", &format!("/v1/feeds/{feed}/gifts"), Some(&gift.to_string())).await
    }

    /// Posts a gift; whatever is answered.
    pub async fn post_gift(&self, feed: &str, gift: &GiftSpec) -> Said {
        self.post_json(feed, &gift.json()).await
    }

    /// Posts a gift that must be taken; gives the answer.
    pub async fn give(&self, feed: &str, gift: &GiftSpec) -> Value {
        let said = self.post_gift(feed, gift).await;
        assert!(matches!(said.status, 200 | 201), "{said:?}");
        said.json()
    }

    /// Posts a batch; whatever is answered.
    pub async fn post_batch(&self, feed: &str, gifts: &[Value]) -> Said {
        let body = json!({"gifts": gifts}).to_string();
        self.call("POST", &format!("/v1/feeds/{feed}/gifts/batch"), Some(&body)).await
    }

    /// The feed's list.
    pub async fn get_feed(&self, feed: &str) -> Value {
        let said = self.get(&format!("/v1/feeds/{feed}")).await;
        assert_eq!(said.status, 200, "{said:?}");
        said.json()
    }

    /// Takes a row back.
    pub async fn retract(&self, feed: &str, row: &str) -> Said {
        self.call("DELETE", &format!("/v1/feeds/{feed}/rows/{row}"), None).await
    }

    /// PUT policy.
    pub async fn put_policy(&self, feed: &str, policy: Value) -> Said {
        self.call("PUT", &format!("/v1/feeds/{feed}/policy"), Some(&policy.to_string())).await
    }

    /// PATCH policy; must be taken.
    pub async fn patch_policy(&self, feed: &str, policy: Value) -> Value {
        let said = self.call("PATCH", &format!("/v1/feeds/{feed}/policy"), Some(&policy.to_string())).await;
        assert_eq!(said.status, 200, "{said:?}");
        said.json()
    }

    /// GET policy.
    pub async fn get_policy(&self, feed: &str) -> Value {
        let said = self.get(&format!("/v1/feeds/{feed}/policy")).await;
        assert_eq!(said.status, 200, "{said:?}");
        said.json()
    }
}

impl Said {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e} in {self:?}"))
    }

    /// A header, empty when absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// This answer as a problem of `status`, RFC 9457, with everything the contract says of problems.
    pub fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let problem = self.json();
        let kind = problem["type"].as_str().unwrap_or_else(|| panic!("no type: {self:?}"));
        let name = kind.strip_prefix("/problems/").unwrap_or_else(|| panic!("{kind}"));
        assert!(!name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "{kind}");
        assert_eq!(problem["status"], status, "{self:?}");
        for text in ["title", "detail"] {
            assert!(problem[text].as_str().is_some_and(|t| !t.is_empty()), "{text}: {self:?}");
        }
        if let Some(errors) = problem.get("errors") {
            let errors = errors.as_array().unwrap();
            assert!(!errors.is_empty(), "{self:?}");
            for error in errors {
                assert!(error["pointer"].is_string() && error["detail"].is_string(), "{self:?}");
            }
        }
        if status == 503 || status == 429 {
            assert!(self.header("retry-after").parse::<u64>().is_ok_and(|s| s >= 1), "{self:?}");
        }
        problem
    }

    /// The pointers of this 422's errors.
    pub fn pointers(&self) -> Vec<String> {
        let problem = self.problem(422);
        let errors = problem["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["pointer"].as_str().unwrap().to_owned()).collect()
    }
}
