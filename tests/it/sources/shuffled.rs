//! Platforms promise no order and repeat themselves: however payments and refunds come, the feed ends as if each
//! had come once.

use std::collections::BTreeMap;

use futures_util::StreamExt;

use super::*;
use crate::support::dice::Dice;

on_both_stores![ten_thousand_deliveries_in_any_order_end_as_each_once];

const PAYMENTS: u64 = 400;
const PAYERS: u64 = 40;
const DELIVERIES: usize = 10_000;

fn payment(n: u64) -> String {
    let mut body: Value = serde_json::from_str(STRIPE).unwrap();
    let object = &mut body["data"]["object"];
    object["payment_intent"] = json!(format!("pi_{n}"));
    object["customer"] = json!(format!("cus_{}", n % PAYERS));
    object["customer_details"]["name"] = json!(format!("Payer {}", n % PAYERS));
    object["amount_total"] = json!(100 + n * 7);
    object["metadata"] = json!({});
    body.to_string()
}

fn refund(n: u64) -> String {
    with(STRIPE_REFUND, "/data/object/payment_intent", json!(format!("pi_{n}")))
}

/// Every seventh payment is given back, and a part of every eleventh.
fn all_events() -> Vec<String> {
    let refunds = (0..PAYMENTS).filter(|n| n % 7 == 3).map(refund);
    let part = |n| {
        with(
            &with(&refund(n), "/data/object/refunded", json!(false)),
            "/data/object/amount_refunded",
            json!(50),
        )
    };
    let parts = (0..PAYMENTS).filter(|n| n % 11 == 4).map(part);
    (0..PAYMENTS).map(payment).chain(refunds).chain(parts).collect()
}

/// What a row says of money, by who paid.
async fn sums(app: &Api, feed: &str) -> BTreeMap<String, (u64, u64)> {
    let of = |row: &Value| {
        let number = |value: &Value| value.as_u64().unwrap();
        (
            row["user"]["id"].as_str().unwrap().to_owned(),
            (number(&row["count"]), number(&row["value"]["amount"])),
        )
    };
    let rows = rows(app, feed).await;
    let all: BTreeMap<_, _> = rows.iter().map(of).collect();
    assert_eq!(all.len(), rows.len(), "each payer has one row");
    all
}

/// What is counted of a feed, but for when: its totals, and what each payer gave.
async fn counted(app: &Api, feed: &str) -> (Value, BTreeMap<String, u64>) {
    let said = app.get(&format!("/v1/feeds/{feed}/totals")).await.json();
    let mut totals = said["totals"]["all"].clone();
    totals.as_object_mut().unwrap().remove("since").unwrap();
    let currency = totals["values"][0]["currency"].as_str().unwrap();
    let path = format!("/v1/feeds/{feed}/leaders?period=all&by={currency}&limit=100");
    let said = app.get(&path).await.json();
    let of = |leader: &Value| {
        (leader["user"]["id"].as_str().unwrap().to_owned(), leader["score"].as_u64().unwrap())
    };
    (totals, said["leaders"].as_array().unwrap().iter().map(of).collect())
}

async fn ten_thousand_deliveries_in_any_order_end_as_each_once() {
    let app = gateway().await;
    let policy = json!({"capacity": 100, "dedup_window_ms": 86_400_000, "totals": ["all"]});
    let (once, shuffled) = ("once", "shuffled");
    let mut paths = vec![];
    for feed in [once, shuffled] {
        app.patch_policy(feed, policy.clone()).await;
        paths.push(set(&app, feed, "stripe", &settings("stripe", SECRET)).await);
    }
    let events = all_events();
    for body in &events {
        let said = deliver(&app, &paths[0], stripe(body, now()), body).await;
        assert_eq!(said.status, 200, "{said:?}");
    }
    // Each at least once, and then as chance will have it.
    let mut dice = Dice(18);
    let mut order: Vec<usize> = (0..events.len()).collect();
    order.extend((events.len()..DELIVERIES).map(|_| dice.below(events.len() as u64) as usize));
    for at in (1..order.len()).rev() {
        order.swap(at, dice.below(at as u64 + 1) as usize);
    }
    let (app_ref, path, events) = (&app, &paths[1], &events);
    let posts = futures_util::stream::iter(order).map(|n| async move {
        let said = deliver(app_ref, path, stripe(&events[n], now()), &events[n]).await;
        assert_eq!(said.status, 200, "{said:?}");
    });
    posts.buffer_unordered(32).collect::<Vec<()>>().await;
    let (expected, found) = (sums(&app, once).await, sums(&app, shuffled).await);
    assert_eq!(found, expected);
    // What is expected, reckoned without the gateway.
    let mut reckoned: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for n in (0..PAYMENTS).filter(|n| n % 7 != 3) {
        let payer = reckoned.entry(format!("stripe:cus_{}", n % PAYERS)).or_default();
        let refunded = if n % 11 == 4 { 50 } else { 0 };
        *payer = (payer.0 + 1, payer.1 + 100 + n * 7 - refunded);
    }
    assert_eq!(expected, reckoned);
    let (totals, leaders) = counted(&app, shuffled).await;
    assert_eq!((totals.clone(), leaders.clone()), counted(&app, once).await);
    let gifts: u64 = reckoned.values().map(|payer| payer.0).sum();
    let amount: u64 = reckoned.values().map(|payer| payer.1).sum();
    assert_eq!((&totals["gifts"], &totals["values"][0]["amount"]), (&json!(gifts), &json!(amount)));
    assert_eq!(leaders, reckoned.into_iter().map(|(payer, (_, amount))| (payer, amount)).collect());
    let counts = get(&app, shuffled, "stripe").await["counts"].clone();
    let counted: u64 = counts.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(counted, DELIVERIES as u64, "{counts}");
}
