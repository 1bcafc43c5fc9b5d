//! The API in front of a store: answers, refusals, failures.

use actix_web::http::Method;
use actix_web::test::TestRequest;

use super::testing::{Bench, Mood, gift};
use crate::domain::Millis;

const GIFTS: &str = "/v1/feeds/room/gifts";

#[actix_web::test]
async fn a_gift_is_accepted_merged_and_repeated() {
    let bench = Bench::new().await;
    let first = bench.post(GIFTS, &gift("a")).await;
    assert_eq!((first.status, first.json()["status"].as_str()), (201, Some("accepted")));
    let merged = bench.post(GIFTS, &gift("b")).await;
    assert_eq!((merged.status, merged.json()["count"].as_u64()), (200, Some(2)));
    let again = bench.post(GIFTS, &gift("a")).await;
    assert_eq!((again.status, again.json()["duplicate"].as_bool()), (200, Some(true)));
    let mut repeated = again.json();
    repeated.as_object_mut().unwrap().remove("duplicate");
    assert_eq!(repeated, first.json());
}

#[actix_web::test]
async fn the_header_names_the_gift_as_the_body_does() {
    let bench = Bench::new().await;
    let anonymous = gift("a").replace("\"id\":\"a\",", "");
    let send = |key: &'static str, body: &str| {
        let request = TestRequest::post().uri(GIFTS).insert_header(("Content-Type", "application/json"));
        bench.send(request.insert_header(("Idempotency-Key", key)).set_payload(body.to_owned()))
    };
    let first = send("\"key-1\"", &anonymous).await;
    assert_eq!((first.status, first.json()["id"].as_str()), (201, Some("key-1")));
    assert_eq!(send("key-1", &gift("key-1")).await.json()["duplicate"], true);
    assert_eq!(send("key-1", &gift("other")).await.pointers(), ["/id"]);
    assert_eq!(send("key 1", &anonymous).await.pointers(), [""]);
    let changed = send("key-1", &anonymous.replace("\"U\"", "\"V\"")).await;
    assert_eq!((changed.status, changed.problem()), (422, "id-reused".into()));
    assert_eq!(changed.pointers(), ["/id"]);
}

#[actix_web::test]
async fn a_batch_answers_every_gift_in_order() {
    let bench = Bench::new().await;
    let body = format!("{{\"gifts\":[{},null,{},{}]}}", gift("a"), gift("a"), gift("b"));
    let answer = bench.post("/v1/feeds/room/gifts/batch", &body).await;
    assert_eq!(answer.status, 200);
    let answer = answer.json();
    let counted = ["accepted", "merged", "suppressed", "duplicate", "scheduled", "rejected"];
    assert_eq!(counted.map(|name| answer[name].as_u64().unwrap()), [1, 1, 0, 1, 0, 1]);
    assert_eq!(answer["results"][2]["status"], "accepted");
    assert_eq!(answer["results"][3]["index"], 3);
}

#[actix_web::test]
async fn a_body_that_is_not_json_of_the_right_size_and_kind_is_refused() {
    let bench = Bench::new().await;
    assert_eq!(bench.post(GIFTS, "{").await.problem(), "json-syntax");
    assert_eq!(bench.post(GIFTS, "[]").await.problem(), "invalid");
    assert_eq!(bench.post(GIFTS, &" ".repeat(8193)).await.problem(), "too-large");
    assert_eq!(bench.post(GIFTS, &format!("{:8192}", gift("a"))).await.status, 201);
    let post = || TestRequest::post().uri(GIFTS).set_payload(gift("a"));
    assert_eq!(bench.send(post()).await.status, 415);
    assert_eq!(bench.send(post().insert_header(("Content-Type", "text/plain"))).await.status, 415);
    let zipped = post()
        .insert_header(("Content-Type", "application/json"))
        .insert_header(("Content-Encoding", "gzip"));
    assert_eq!(bench.send(zipped).await.problem(), "unsupported-media-type");
}

#[actix_web::test]
async fn a_malformed_feed_is_422_on_every_path_and_a_name_is_decoded_first() {
    let bench = Bench::new().await;
    let long = "x".repeat(65);
    let refused = ["", "a%20b", "a%2Fb", "a+b", "%C3%BC", &long].map(|feed| (feed, (422, "invalid")));
    let malformed = ["%zz", "%ff", "%"].map(|feed| (feed, (400, "malformed-path")));
    for (feed, problem) in refused.into_iter().chain(malformed) {
        let at = |rest: &str| format!("/v1/feeds/{feed}{rest}");
        let answer = [
            bench.get(&at("")).await,
            bench.post(&at("/gifts"), &gift("a")).await,
            bench.post(&at("/gifts/batch"), "{\"gifts\":[]}").await,
            bench.get(&at("/policy")).await,
            bench.json(Method::PUT, &at("/policy"), "{}").await,
            bench.json(Method::PATCH, &at("/policy"), "{}").await,
            bench.json(Method::DELETE, &at("/rows/r"), "").await,
            bench.get(&at("/scheduled")).await,
            bench.json(Method::DELETE, &at("/scheduled/s"), "").await,
            bench.get(&at("/due/dead")).await,
        ];
        for answer in answer {
            assert_eq!((answer.status, &*answer.problem()), problem, "{feed:?}");
        }
    }
    assert_eq!(bench.get("/v1/feeds/r%6fom").await.json()["feed"], "room");
}

#[actix_web::test]
async fn a_path_or_a_method_that_is_not_there_is_a_problem() {
    let bench = Bench::new().await;
    for path in ["/nope", "/v1/feeds/room/nope", "/v1/feeds/room/gifts/", "/static/nope", "/problems/nope"] {
        assert_eq!(bench.get(path).await.problem(), "not-found", "{path}");
    }
    for (method, path, allow) in [
        (Method::GET, GIFTS, "POST"),
        (Method::POST, "/v1/feeds/room", "GET, HEAD"),
        (Method::DELETE, "/v1/feeds/room/policy", "GET, HEAD, PUT, PATCH"),
        (Method::GET, "/v1/feeds/room/rows/r", "DELETE"),
        (Method::PUT, "/healthz", "GET, HEAD"),
        (Method::from_bytes(b"BREW").unwrap(), "/", "GET, HEAD"),
    ] {
        let answer = bench.json(method, path, "").await;
        assert_eq!(
            (answer.problem().as_str(), answer.header("allow")),
            ("method-not-allowed", allow),
            "{path}"
        );
    }
}

#[actix_web::test]
async fn a_snapshot_has_a_tag_that_saves_reading_it_again() {
    let bench = Bench::new().await;
    let empty = bench.get("/v1/feeds/room").await;
    assert_eq!((empty.status, empty.header("etag")), (200, "\"0:0\""));
    bench.post(GIFTS, &gift("a")).await;
    let answer = bench.get("/v1/feeds/room").await;
    let tag = answer.header("etag").to_owned();
    let json = answer.json();
    assert_eq!(tag, format!("\"{}:1\"", json["epoch"].as_str().unwrap()));
    assert_eq!((json["capacity"].as_u64(), json["rows"].as_array().unwrap().len()), (Some(10), 1));
    let again = TestRequest::get().uri("/v1/feeds/room").insert_header(("If-None-Match", format!("W/{tag}")));
    let again = bench.send(again).await;
    assert_eq!((again.status, again.header("etag"), again.text.as_str()), (304, tag.as_str(), ""));
}

#[actix_web::test]
async fn a_row_is_retracted_once() {
    let bench = Bench::new().await;
    let row = bench.post(GIFTS, &gift("a")).await.json()["row"].as_str().unwrap().to_owned();
    let path = format!("/v1/feeds/room/rows/{row}");
    let answer = bench.json(Method::DELETE, &path, "").await;
    assert_eq!(
        (answer.status, answer.json()["status"].as_str(), answer.json()["seq"].as_u64()),
        (200, Some("retracted"), Some(2))
    );
    assert_eq!(bench.json(Method::DELETE, &path, "").await.problem(), "not-found");
    assert_eq!(bench.json(Method::DELETE, "/v1/feeds/room/rows/no%20row", "").await.problem(), "not-found");
}

#[actix_web::test]
async fn put_resets_what_it_leaves_out_and_patch_keeps_it() {
    let bench = Bench::new().await;
    let path = "/v1/feeds/room/policy";
    assert_eq!(bench.json(Method::PATCH, path, "{\"capacity\":3}").await.json()["capacity"], 3);
    let patched = bench.json(Method::PATCH, path, "{\"dedup\":\"off\"}").await.json();
    assert_eq!((patched["capacity"].as_u64(), patched["dedup"].as_str()), (Some(3), Some("off")));
    assert_eq!(bench.get(path).await.json(), patched);
    let reset = bench.json(Method::PUT, path, "{}").await.json();
    assert_eq!((reset["capacity"].as_u64(), reset["dedup"].as_str()), (Some(10), Some("combine")));
    let refused = bench.json(Method::PUT, path, "{\"capacity\":0,\"colour\":1}").await;
    assert_eq!(refused.pointers(), ["/capacity", "/colour"]);
}

fn later(id: &str) -> String {
    gift(id).replacen("{\"id\"", "{\"deliver_at\":\"2999-01-01T00:00:00Z\",\"id\"", 1)
}

#[actix_web::test]
async fn a_gift_for_later_is_202_its_repetition_200_and_one_too_many_429() {
    let bench = Bench::new().await;
    let answer = bench.post(GIFTS, &later("a")).await;
    let wanted = serde_json::json!(
        {"status": "scheduled", "id": "a", "deliver_at": "2999-01-01T00:00:00.000Z"}
    );
    assert_eq!((answer.status, answer.json()), (202, wanted.clone()));
    let again = bench.post(GIFTS, &later("a")).await;
    let mut repeated = wanted;
    repeated["duplicate"] = true.into();
    assert_eq!((again.status, again.json()), (200, repeated));
    let body = format!("{{\"gifts\":[{},{},{}]}}", later("b"), later("c"), later("d"));
    let batch = bench.post("/v1/feeds/room/gifts/batch", &body).await.json();
    assert_eq!((&batch["scheduled"], &batch["rejected"]), (&2.into(), &1.into()));
    assert_eq!(batch["results"][2]["error"]["type"], "/problems/schedule-full");
    let full = bench.post(GIFTS, &later("e")).await;
    assert_eq!(full.problem(), "schedule-full");
    // There is room again when the first of them is shown.
    let first = Millis::parse("2999-01-01T00:00:00Z").unwrap().since(Millis::now()) / 1_000;
    let wait: u64 = full.header("retry-after").parse().unwrap();
    assert!(wait.abs_diff(first) < 60, "{wait} beside {first}");
}

#[actix_web::test]
async fn waiting_gifts_are_listed_in_pages_and_cancelled_once() {
    let bench = Bench::new().await;
    let empty = bench.get("/v1/feeds/room/scheduled").await;
    assert_eq!(empty.text, "{\"scheduled\":[],\"next\":null}");
    for id in ["a", "b", "c"] {
        bench.post(GIFTS, &later(id)).await;
    }
    let page = bench.get("/v1/feeds/room/scheduled?limit=2").await.json();
    let ids = |page: &serde_json::Value| -> Vec<String> {
        let all = page["scheduled"].as_array().unwrap().iter();
        all.map(|it| format!("{} {}", it["id"].as_str().unwrap(), it["gift"]["id"].as_str().unwrap()))
            .collect()
    };
    assert_eq!(ids(&page), ["a a", "b b"]);
    let next = page["next"].as_str().unwrap();
    let rest = bench.get(&format!("/v1/feeds/room/scheduled?after={next}")).await.json();
    assert_eq!((ids(&rest), &rest["next"]), (vec!["c c".to_owned()], &serde_json::Value::Null));
    assert_eq!(bench.get("/v1/feeds/room/scheduled?limit=0").await.problem(), "invalid");
    let cancel =
        async |id: &str| bench.json(Method::DELETE, &format!("/v1/feeds/room/scheduled/{id}"), "").await;
    let gone = cancel("a").await;
    assert_eq!((gone.status, gone.json()["status"].as_str()), (200, Some("cancelled")));
    assert_eq!(cancel("a").await.problem(), "not-found");
    assert_eq!(cancel("no%20id").await.problem(), "not-found");
    bench.post(GIFTS, &gift("now")).await;
    let shown = cancel("now").await;
    assert_eq!((shown.status, shown.problem().as_str()), (409, "already-shown"));
    assert_eq!(bench.get("/v1/feeds/room/due/dead").await.text, "{\"dead\":[]}");
}

#[actix_web::test]
async fn a_store_that_fails_is_503_and_tells_no_secrets() {
    let bench = Bench::new().await;
    for (mood, problem) in [(Mood::Down, "unavailable"), (Mood::Full, "overloaded")] {
        bench.store_is(mood);
        for answer in [bench.post(GIFTS, &gift("a")).await, bench.get("/v1/feeds/room").await] {
            assert_eq!((answer.problem().as_str(), answer.header("retry-after")), (problem, "1"));
            assert!(!answer.text.contains("secret"));
        }
    }
    assert_eq!(bench.get("/healthz").await.status, 200);
    bench.store_is(Mood::Broken);
    let answer = bench.post(GIFTS, &gift("a")).await;
    assert_eq!((answer.status, answer.problem()), (500, "internal".into()));
    assert!(!answer.text.contains("secret"));
}

#[actix_web::test]
async fn a_silent_store_is_503_within_five_seconds() {
    let bench = Bench::new().await;
    bench.store_is(Mood::Silent);
    let begun = std::time::Instant::now();
    assert_eq!(bench.post(GIFTS, &gift("a")).await.problem(), "unavailable");
    assert!(begun.elapsed().as_secs() < 5);
}

#[actix_web::test]
async fn the_page_escapes_and_selects_its_feed_and_files_have_tags() {
    let bench = Bench::new().await;
    assert!(bench.get("/?feed=room-7").await.text.contains("room-7"));
    let page = bench.get("/?feed=%3Cscript%3Ealert(1)").await;
    assert!(page.text.contains("demo") && !page.text.contains("alert(1)"));
    assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
    for (file, mime) in
        [("tipcast.js", "text/javascript"), ("app.js", "text/javascript"), ("tipcast.css", "text/css")]
    {
        let path = format!("/static/{file}");
        let answer = bench.get(&path).await;
        assert!(answer.status == 200 && answer.header("content-type").starts_with(mime), "{file}");
        let known =
            TestRequest::get().uri(&path).insert_header(("If-None-Match", answer.header("etag").to_owned()));
        assert_eq!(bench.send(known).await.status, 304);
    }
}

#[actix_web::test]
async fn a_problem_type_can_be_read_about() {
    let bench = Bench::new().await;
    for kind in super::problem::KINDS {
        let answer = bench.get(&kind.uri()).await;
        // What is described under a name that another status has too leads there.
        let named = super::problem::KINDS.iter().find(|known| known.name == kind.name).unwrap();
        assert!(answer.status == 200 && answer.text.contains(named.about), "{}", kind.name);
    }
}

#[actix_web::test]
async fn readiness_says_no_before_the_first_probe() {
    let bench = Bench::new().await;
    let answer = bench.get("/readyz").await;
    assert_eq!((answer.status, answer.problem()), (503, "not-ready".into()));
    bench.probe().await;
    assert_eq!(bench.get("/readyz").await.json()["engine"], "embedded");
}
