//! Requests against the whole application, over a store that a test makes fail.

use std::sync::{Arc, Mutex};

use actix_web::body::to_bytes;
use actix_web::http::Method;
use actix_web::test::{TestRequest, init_service, try_call_service};
use actix_web::{HttpResponse, web};
use serde_json::Value;

use super::{Gate, Limits, Readiness, app};
use crate::engine::test_store::{Interception, Interceptor};
use crate::engine::{Store, StoreError};
use crate::live::Live;
use crate::metrics::labels;

/// How the store answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mood {
    #[default]
    Fine,
    Down,
    Full,
    Silent,
    Broken,
}

/// Gifts of a feed that may be scheduled.
const SCHEDULED_MAX: u64 = 3;

#[derive(Default)]
struct Failing {
    mood: Mutex<Mood>,
}

impl Interceptor for Failing {
    fn before(&self, _: labels::Operation) -> Interception<'_> {
        let mood = *self.mood.lock().unwrap();
        Box::pin(async move {
            match mood {
                Mood::Fine => Ok(()),
                Mood::Down => Err(StoreError::Unavailable("secret-host refused".into())),
                Mood::Full => Err(StoreError::Overloaded("queue")),
                Mood::Silent => std::future::pending().await,
                Mood::Broken => panic!("secret panic"),
            }
        })
    }
}

/// The application in front of a store in a folder of its own.
pub(super) struct Bench {
    failing: Arc<Failing>,
    gate: web::Data<Gate>,
    _folder: tempfile::TempDir,
}

/// An answer, read whole.
pub(super) struct TestAnswer {
    pub(super) status: u16,
    head: HttpResponse<()>,
    pub(super) text: String,
}

impl TestAnswer {
    pub(super) fn header(&self, name: &str) -> &str {
        self.head.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// The problem's name, after checking that it is one.
    pub(super) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text);
        assert_eq!(self.json()["status"], self.status);
        self.json()["type"].as_str().unwrap().trim_start_matches("/problems/").to_owned()
    }

    pub(super) fn pointers(&self) -> Vec<String> {
        let problem = self.json();
        let errors = problem["errors"].as_array().unwrap();
        errors.iter().map(|e| e["pointer"].as_str().unwrap().to_owned()).collect()
    }
}

impl Bench {
    pub(super) async fn new() -> Self {
        let failing = Arc::<Failing>::default();
        let (store, folder) = Store::in_temporary_folder(SCHEDULED_MAX).await;
        let store = store.intercepted(failing.clone());
        let live = Live::start(store.clone(), Arc::default(), Arc::default());
        let gate = Gate::new(store, live, Arc::new(Readiness::default()), Limits::default());
        Bench { failing, gate: web::Data::new(gate), _folder: folder }
    }

    /// As a program of the same machine: there are no keys.
    pub(super) async fn send(&self, request: TestRequest) -> TestAnswer {
        let request = request.peer_addr(([127, 0, 0, 1], 9).into()).insert_header(("Host", "127.0.0.1:8080"));
        let service = init_service(app(self.gate.clone())).await;
        let answer = match try_call_service(&service, request.to_request()).await {
            Ok(answer) => answer.into_parts().1.map_into_boxed_body(),
            Err(error) => error.error_response(),
        };
        let (head, body) = answer.into_parts();
        let text = String::from_utf8(to_bytes(body).await.unwrap_or_default().to_vec()).unwrap();
        TestAnswer { status: head.status().as_u16(), head, text }
    }

    /// How the store answers from now on.
    pub(super) fn store_is(&self, mood: Mood) {
        *self.failing.mood.lock().unwrap() = mood;
    }

    pub(super) async fn probe(&self) {
        assert!(self.gate.ready.probe(&self.gate.store).await);
    }

    pub(super) async fn get(&self, path: &str) -> TestAnswer {
        self.send(TestRequest::get().uri(path)).await
    }

    /// A request with a JSON body.
    pub(super) async fn json(&self, method: Method, path: &str, body: &str) -> TestAnswer {
        let request = TestRequest::default().method(method).uri(path);
        self.send(request.insert_header(("Content-Type", "application/json")).set_payload(body.to_owned()))
            .await
    }

    pub(super) async fn post(&self, path: &str, body: &str) -> TestAnswer {
        self.json(Method::POST, path, body).await
    }
}

/// Somebody without a token in front of a gate that nobody else uses.
pub(super) async fn watcher() -> super::watch::Watcher {
    super::watch::Watcher::new(Bench::new().await.gate.into_inner(), super::door::Identity::Nobody, None)
}

/// A gift of one user and kind.
pub(super) fn gift(id: &str) -> String {
    format!(r#"{{"id":"{id}","user":{{"id":"u","name":"U"}},"gift":{{"id":"g","name":"G"}}}}"#)
}
