//! What a drop survives: kill -9 before and after the reply, a Redis that restarts, a node that dies
//! with its turn, a feed that expires.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tipcast::domain::{Claimed, Confirmed, Millis};
use tipcast::engine::store::StoreOptions;

use tokio::time::Instant;

use crate::support::api::{Api, Said};
use crate::support::app::Backing;
use crate::support::case::{PATIENCE, fresh_feed};
use crate::support::claims::{claim, claim_of, hold, named, rockets, spec_of, with};
use crate::support::process::Process;
use crate::support::redis_server::RedisServer;
use crate::support::stores::Corner;
use tipcast::engine::Store;

const BUYERS: usize = 12;

/// What one buyer does again and again: claim, and pay for every second hold, give back every third.
async fn buy(
    api: Api,
    buyer: usize,
    round: usize,
    answered: Arc<AtomicUsize>,
) -> Vec<(String, Value, Value)> {
    let mut answers = vec![];
    for n in 0..100_000 {
        let (id, user) = (format!("b{buyer}-r{round}-{n}"), format!("u{buyer}-{round}-{n}"));
        let body = if n % 4 == 0 { claim(&id, &user) } else { hold(&id, &user) };
        let path = "/v1/feeds/show/drops/r/claims".to_owned();
        let Some(said) = send(&api, "POST", &path, Some(&body)).await else { return answers };
        assert_eq!(said.status, 201, "{said:?}");
        let held = said.json()["hold"].as_str().map(str::to_owned);
        answers.push((path, body, said.json()));
        answered.fetch_add(1, Ordering::Relaxed);
        let Some(held) = held else { continue };
        if n % 2 == 1 {
            let path = format!("/v1/feeds/show/holds/{held}/confirm");
            let Some(said) = send(&api, "POST", &path, None).await else { return answers };
            assert_eq!(said.status, 200, "{said:?}");
            answers.push((path, Value::Null, said.json()));
        } else if n % 3 == 0 {
            let path = format!("/v1/feeds/show/holds/{held}");
            let Some(said) = send(&api, "DELETE", &path, None).await else { return answers };
            assert_eq!(said.status, 200, "{said:?}");
            answers.push((path, Value::Null, said.json()));
        }
    }
    answers
}

async fn send(api: &Api, method: &str, path: &str, body: Option<&Value>) -> Option<Said> {
    let request = api.request(method, path);
    let request = match body {
        Some(body) => request.json(body),
        None => request,
    };
    Api::try_send(request).await.ok()
}

/// Killed at any moment of any call: what was answered is answered again, and stock is exact.
async fn is_killed_again_and_again(backing: Backing) {
    let mut gateway = Process::on(&backing);
    let drop = rockets(1_000_000);
    let put = "/v1/feeds/show/drops/r";
    assert_eq!(send(&gateway, "PUT", put, Some(&drop)).await.unwrap().status, 201);
    for round in 0..3 {
        let answered = Arc::new(AtomicUsize::new(0));
        let buyers: Vec<_> = (0..BUYERS)
            .map(|buyer| tokio::spawn(buy(Api::clone(&gateway), buyer, round, answered.clone())))
            .collect();
        let since = Instant::now();
        while answered.load(Ordering::Relaxed) < 150 + 31 * round {
            assert!(since.elapsed() < PATIENCE, "nothing is sold");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        gateway.kill();
        let mut answers = vec![];
        for buyer in buyers {
            answers.extend(buyer.await.unwrap());
        }
        gateway = Process::on(&backing);
        let before = gateway.get(put).await.json();
        for (path, body, first) in &answers {
            let body = Some(body).filter(|body| !body.is_null());
            let method =
                if path.ends_with("/claims") || path.ends_with("/confirm") { "POST" } else { "DELETE" };
            let said = send(&gateway, method, path, body).await.unwrap();
            match method {
                "POST" => assert_eq!(said.json(), *first, "what was answered is answered again: {path}"),
                _ => assert_eq!(said.problem(409)["type"], "/problems/hold-ended"),
            }
        }
        let after = gateway.get(put).await.json();
        assert_eq!(before, after, "repeating changes nothing");
        // Every unit is where the answers say, and those whose answers were cut off are in one place.
        let units = |what: &str| after[what].as_u64().unwrap();
        assert_eq!(units("free") + units("held") + units("sold"), 1_000_000);
    }
    let rows = gateway.get_feed("show").await;
    let told = &rows["drops"][0];
    assert_eq!(told["drop"], "r");
}

#[tokio::test]
async fn stock_is_exact_when_a_gateway_on_a_folder_is_killed_while_it_sells() {
    is_killed_again_and_again(Backing::folder()).await;
}

#[tokio::test]
async fn stock_is_exact_when_a_gateway_on_redis_is_killed_while_it_sells() {
    is_killed_again_and_again(Backing::redis()).await;
}

/// The node that would end the holds is killed with its turn: the other one does it.
#[tokio::test]
async fn a_hold_comes_back_within_a_second_when_the_node_that_made_it_is_killed() {
    let backing = Backing::redis();
    let (mut doomed, other) = (Process::on(&backing), Process::on(&backing));
    let drop = with(with(rockets(20), "hold_ttl_ms", json!(900)), "per_user", json!(1));
    assert_eq!(send(&doomed, "PUT", "/v1/feeds/show/drops/r", Some(&drop)).await.unwrap().status, 201);
    let mut watcher = crate::support::watcher::Watcher::open(&other, "show").await;
    let mut last = Millis(0);
    for n in 0..20 {
        let body = hold(&format!("c{n}"), &format!("u{n}"));
        let said = send(&doomed, "POST", "/v1/feeds/show/drops/r/claims", Some(&body)).await.unwrap().json();
        last = Millis::parse(said["expires_at"].as_str().unwrap()).unwrap();
    }
    watcher
        .wait_until("sold out", |fold| fold.drops.get("r").is_some_and(|d| d["state"] == "sold_out"))
        .await;
    doomed.kill();
    watcher.wait_until("all are back", |fold| fold.drops["r"]["free"] == 20).await;
    let late = Millis::now().since(last);
    assert!(late < 1_700, "told {late} ms after the last one ended (stock is told every 600 ms)");
}

#[tokio::test]
async fn drops_go_on_where_they_were_when_redis_restarts() {
    let mut server = RedisServer::durable();
    let options = || StoreOptions { store_clock: false, ..StoreOptions::new(server.url()) };
    let (engine, other) = (Store::redis(options()).await.unwrap(), Store::redis(options()).await.unwrap());
    let (feed, drop, now) = (fresh_feed(), named("r"), Millis(1_800_000_000_000));
    engine.define_drop(&feed, &drop, &spec_of(&rockets(10)), now).await.unwrap();
    let mut answers = HashMap::new();
    for n in 0..6 {
        let id = format!("c{n}");
        let body = if n < 3 { claim(&id, &id) } else { hold(&id, &id) };
        let Claimed::New(answer) = engine.claim_drop(&feed, &drop, claim_of(&body), now).await.unwrap()
        else {
            panic!()
        };
        answers.insert(body.to_string(), answer);
    }
    let held =
        answers.values().find(|answer| answer.claim.claim.sent().as_str() == "c4").unwrap().claim.clone();
    let Confirmed::New(sold) = engine.confirm_hold(&feed, &held, None, now).await.unwrap() else { panic!() };
    server.kill();
    assert!(engine.tick_drop(&feed, &drop, now).await.is_err(), "nothing is made up while it is away");
    server.start_again();
    let since = Instant::now();
    while engine.tick_drop(&feed, &drop, now).await.is_err()
        || other.tick_drop(&feed, &drop, now).await.is_err()
    {
        assert!(since.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let view = other.tick_drop(&feed, &drop, now).await.unwrap().unwrap();
    assert_eq!((view.free, view.held, view.sold), (4, 2, 4));
    for (body, first) in answers {
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            other.claim_drop(&feed, &drop, claim_of(&body), now).await.unwrap(),
            Claimed::Again(first)
        );
    }
    assert_eq!(other.confirm_hold(&feed, &held, None, now).await.unwrap(), Confirmed::Again(sold));
    let later = now.plus(1_800_000);
    let view = engine.tick_drop(&feed, &drop, later).await.unwrap().unwrap();
    assert_eq!((view.free, view.held, view.sold), (6, 0, 4));
}

#[tokio::test]
async fn an_idle_feed_forgets_its_list_and_no_drop_claim_or_hold() {
    let corner = Corner::new();
    let options = StoreOptions {
        prefix: corner.prefix.clone(),
        store_clock: false,
        feed_idle_ttl_ms: 150,
        ..StoreOptions::new(corner.server.url())
    };
    let engine = Store::redis(options).await.unwrap();
    let (feed, drop, now) = (fresh_feed(), named("r"), Millis(1_800_000_000_000));
    engine.define_drop(&feed, &drop, &spec_of(&rockets(3)), now).await.unwrap();
    let sold = engine.claim_drop(&feed, &drop, claim_of(&claim("c1", "ann")), now).await.unwrap();
    engine.claim_drop(&feed, &drop, claim_of(&hold("c2", "bob")), now).await.unwrap();
    let since = Instant::now();
    while !engine.read_snapshot(&feed, now).await.unwrap().at.epoch.is_none() {
        assert!(since.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let list = engine.read_snapshot(&feed, now).await.unwrap();
    assert_eq!((list.rows.len(), list.drops[&drop].spec.total), (0, 3), "watchers still see the drop");
    let (Claimed::New(first), Claimed::Again(again)) =
        (sold, engine.claim_drop(&feed, &drop, claim_of(&claim("c1", "ann")), now).await.unwrap())
    else {
        panic!()
    };
    assert_eq!(first, again);
    let view = engine.tick_drop(&feed, &drop, now.plus(1_800_000)).await.unwrap().unwrap();
    assert_eq!((view.free, view.held, view.sold), (2, 0, 1));
}
