// The library for backends, against a real gateway.

import assert from "node:assert/strict";
import { createHmac, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { once } from "node:events";
import test from "node:test";
import { BadSignature, Problem, Tipcast, Unavailable, Webhook } from "tipcast/server";
import { Gateway, until } from "./gateway.mjs";

const gift = (more = {}) => ({ user: { id: "u1", name: "Mia" }, gift: { id: "rose", name: "Rose" }, value: { amount: 150, currency: "EUR" }, ...more });
const quiet = { info() {}, warn() {}, error() {} };

/** A server whose answers `answer(request, body)` gives: `[status, body, headers]`, or nothing to cut the connection. */
async function server(t, answer) {
  const it = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const said = answer(request, Buffer.concat(chunks).toString());
    if (!said) return request.socket.destroy();
    const [status, body, headers = {}] = said;
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(typeof body === "string" ? body : JSON.stringify(body));
  }).listen(0, "127.0.0.1");
  await once(it, "listening");
  t.after(() => it.closeAllConnections() || it.close());
  return `http://127.0.0.1:${it.address().port}`;
}

test("gifts are sent, one and many, and told apart by id", async (t) => {
  const tipcast = new Tipcast((await Gateway.start(t)).url);
  const first = await tipcast.post("show", gift({ id: "g1" }));
  assert.deepEqual([first.status, first.id], ["accepted", "g1"]);
  assert.equal((await tipcast.post("show", gift({ id: "g1" }))).duplicate, true);
  const made = await tipcast.post("show", gift({ user: { id: "u2", name: "Jules" } }));
  assert.match(made.id, /^[0-9a-f-]{36}$/);
  const many = await tipcast.postAll("show", Array.from({ length: 300 }, (_, n) => gift(n === 200 ? { id: `n${n}`, count: 0 } : { id: `n${n}` })));
  assert.deepEqual(many.map(({ index }) => index), Array.from({ length: 300 }, (_, n) => n));
  assert.deepEqual(many.filter((it) => it.error).map((it) => it.index), [200]);
  const { values } = await tipcast.summary("show");
  assert.deepEqual(values, [{ amount: 301 * 150, currency: "EUR" }]);
  const cursors = new Set();
  for await (const { cursor } of tipcast.ledger("show", { limit: 50 })) cursors.add(cursor);
  assert.equal(cursors.size, 301);
});

test("every method does what it says", async (t) => {
  const tipcast = new Tipcast((await Gateway.start(t)).url);
  await tipcast.patchPolicy("show", { totals: ["session", "day"], points: { EUR: 1 } });
  assert.deepEqual((await tipcast.policy("show")).totals, ["session", "day"]);
  await tipcast.putGoal("show", "mic", { title: "Mic", by: "EUR", period: "session", target: 1_000 });
  assert.equal((await tipcast.goal("show", "mic")).target, 1_000);
  assert.equal((await tipcast.goals("show")).length, 1);
  assert.equal((await tipcast.session("show", "friday")).session?.id ?? "friday", "friday");
  const { row } = await tipcast.post("show", gift({ id: "g1", value: { amount: 500, currency: "EUR" } }));
  assert.equal((await tipcast.totals("show")).feed, "show");
  assert.equal((await tipcast.leaders("show", { period: "session", by: "EUR", limit: 3 })).leaders[0].user.id, "u1");
  assert.equal((await tipcast.refund("show", "g1", 200, "late")).status, "refunded");
  assert.equal((await tipcast.story("show", "g1")).entries.length, 2);
  await tipcast.retractGift("show", "g1");
  await tipcast.post("show", gift({ id: "g2", user: { id: "u2", name: "Sam" } })).then((it) => tipcast.retract("show", it.row));
  await tipcast.post("show", gift({ id: "g3", user: { id: "u3", name: "Kim" } }));
  await tipcast.retractUser("show", "u3");
  assert.deepEqual((await tipcast.feed("show")).rows, []);
  assert.ok(row);

  await tipcast.post("show", gift({ id: "later", delay_ms: 600_000 }));
  const waiting = [];
  for await (const it of tipcast.scheduled("show")) waiting.push(it.id);
  assert.deepEqual(waiting, ["later"]);
  await tipcast.cancel("show", "later");

  await tipcast.putDrop("show", "crown", { total: 3, per_user: 3, gift: { id: "crown", name: "Crown" }, value: { amount: 900, currency: "EUR" } });
  const sold = await tipcast.sell("show", "crown", { id: "s1", user: { id: "u1", name: "Mia" }, pay: "now" });
  assert.equal(sold.status, "sold");
  const held = await tipcast.sell("show", "crown", { id: "s2", user: { id: "u1", name: "Mia" }, pay: "later" });
  assert.equal((await tipcast.holds("show", "u1")).length, 1);
  assert.equal((await tipcast.confirm("show", held.hold)).status, "sold");
  const dropped = await tipcast.sell("show", "crown", { user: { id: "u1", name: "Mia" }, pay: "later" });
  await tipcast.release("show", dropped.hold);
  assert.equal((await tipcast.sale("show", "crown", "s1")).status, "sold");
  await tipcast.refundSale("show", "crown", "s1", 100);
  await tipcast.retractSale("show", "crown", "s2");
  const [drop] = await tipcast.drops("show");
  assert.deepEqual([drop.sold + drop.held + drop.free, (await tipcast.drop("show", "crown")).total], [3, 3]);

  await tipcast.patchPolicy("show", { review: "messages" });
  await tipcast.post("show", gift({ id: "m1", message: "hi" }));
  assert.deepEqual((await tipcast.review("show")).map(({ id }) => id), ["m1"]);
  await tipcast.decide("show", "m1", "approve");
  assert.equal((await tipcast.story("show", "m1")).status, "accepted");
  await tipcast.block("show", "troll");
  assert.deepEqual((await tipcast.blocks("show")).map(({ user }) => user), ["troll"]);
  await tipcast.unblock("show", "troll");
  await tipcast.control("show", "pause");
  assert.equal((await tipcast.presence("show")).watchers, 0);
  await tipcast.deleteGoal("show", "mic");
  await tipcast.putPolicy("show", { capacity: 3 });

  const secret = `whsec_${randomBytes(32).toString("base64")}`;
  await tipcast.putWebhook("show", "game", { url: "https://games.example/hook", secret });
  assert.equal((await tipcast.webhook("show", "game")).state, "active");
  assert.equal((await tipcast.webhooks("show")).length, 1);
  await tipcast.deleteWebhook("show", "game");
  const feeds = [];
  await until("the list of feeds", async () => {
    feeds.length = 0;
    for await (const it of tipcast.feeds("sh")) feeds.push(it.feed);
    return feeds.length;
  });
  assert.deepEqual(feeds, ["show"]);

  const [one, two] = await tipcast.claim("show", "g", "c", { max: 2 });
  assert.equal(await tipcast.ack("show", "g", [one.cursor]), 1);
  assert.equal(await tipcast.nack("show", "g", [two.cursor]), 1);
  assert.equal((await tipcast.group("show", "g")).pending, 1);
  assert.equal(await tipcast.seek("show", "g", { cursor: one.cursor }), one.cursor);
  assert.equal((await tipcast.groups("show")).length, 1);
  assert.deepEqual(await tipcast.deadLetters("show", "g"), []);
  assert.equal(await tipcast.replay("show", "g"), 0);
  await tipcast.deleteGroup("show", "g");
});

test("what is refused says why, and what is not answered can be sent again by its id", async (t) => {
  const { url } = await Gateway.start(t);
  const tipcast = new Tipcast(url, { patience: 300, timeout: 200 });
  const refused = await tipcast.post("show", gift({ count: 0 })).catch((error) => error);
  assert.ok(refused instanceof Problem);
  assert.deepEqual([refused.status, refused.type, refused.errors[0].pointer], [422, "/problems/invalid", "/count"]);
  assert.match(refused.message, /\/count/);
  assert.match(refused.message, new RegExp(refused.id));
  const wrong = await tipcast.post("no such feed", gift()).catch((error) => error);
  assert.equal(wrong.status, 422);
  const nobody = await new Tipcast("http://127.0.0.1:9", { patience: 0 }).post("show", gift({ id: "g9" })).catch((error) => error);
  assert.ok(nobody instanceof Unavailable);
  assert.match(nobody.message, /127\.0\.0\.1:9.*g9/);
  const page = await server(t, () => [200, "<html>", { "content-type": "text/html" }]);
  await assert.rejects(new Tipcast(page).feed("show"), /no Tipcast gateway.*text\/html/);
  const moved = await server(t, () => [301, "", { location: "https://elsewhere.example" }]);
  await assert.rejects(new Tipcast(moved).feed("show"), /301/);
  const slow = await server(t, () => [503, { detail: "later" }, { "retry-after": "0" }]);
  await assert.rejects(new Tipcast(slow, { patience: 300 }).feed("show"), Unavailable);
  for (const make of [() => new Tipcast("gateway.example"), () => new Tipcast(url, { kee: "x" }), () => new Webhook([])]) assert.throws(make, TypeError);
  await assert.rejects(async () => tipcast.consume("show", "g", () => {}, { leaseMs: 1 }), /leaseMs/);
});

test("a retry has the id of the first try", async (t) => {
  const ids = [];
  const url = await server(t, (_, body) => {
    ids.push(JSON.parse(body).id);
    if (ids.length === 1) return undefined;
    return ids.length === 2 ? [503, {}, {}] : [201, { id: ids[0], status: "accepted" }];
  });
  const answer = await new Tipcast(url, { key: "tck_x" }).post("show", gift());
  assert.equal(answer.status, "accepted");
  assert.deepEqual(new Set(ids).size, 1);
});

test("entries are handed out by type, failures come again alone, and outages are waited out", async (t) => {
  const gateway = await Gateway.start(t);
  const tipcast = new Tipcast(gateway.url, { patience: 500 });
  for (let n = 0; n < 5; n += 1) await tipcast.post("show", gift({ id: `g${n}` }));
  const seen = [];
  const ended = new AbortController();
  let failed = 0;
  const done = tipcast.consume("show", "game", {
    "gift.accepted": ({ gift: it }) => seen.push(it.id),
    "gift.merged": async ({ gift: it }) => {
      if (it.id === "g2" && !failed++) throw new Error("not today");
      seen.push(it.id);
    },
    "*": ({ type }) => seen.push(type),
  }, { signal: ended.signal, lease_ms: 2_000, log: quiet });
  await until("all of them", () => seen.length === 5);
  assert.deepEqual(seen.toSorted(), ["g0", "g1", "g2", "g3", "g4"]);
  assert.equal(seen.at(-1), "g2", "its neighbours went on");
  await gateway.crash();
  await new Tipcast(gateway.url).retractGift("show", "g1");
  await until("the entry after the outage", () => seen.includes("gift.retracted"));
  ended.abort();
  await done;
  await until("everything is acknowledged", async () => {
    const { lag, pending } = await new Tipcast(gateway.url).group("show", "game");
    return lag === 0 && pending === 0;
  });
});

test("a first claim that is refused ends consuming", async (t) => {
  const url = await server(t, () => [403, { type: "/problems/forbidden", detail: "the key lacks the right reports" }]);
  await assert.rejects(new Tipcast(url).consume("show", "g", () => {}), (error) => error instanceof Problem && error.status === 403);
});

test("deliveries are read, and forged, old and repeated signatures are refused", () => {
  const key = randomBytes(32);
  const secret = `whsec_${key.toString("base64")}`;
  const body = Buffer.from(JSON.stringify({ type: "entries", feed: "show", batch: "1", entries: [{ event_id: "show/1" }] }));
  const stamp = String(Math.floor(Date.now() / 1_000));
  const sign = (by, text = body) => `v1,${createHmac("sha256", by).update(`msg_1.${stamp}.`).update(text).digest("base64")}`;
  const headers = (signature, at = stamp) => ({ "webhook-id": "msg_1", "webhook-timestamp": at, "webhook-signature": signature });
  const webhook = new Webhook([`whsec_${randomBytes(32).toString("base64")}`, secret]);
  assert.equal(webhook.read(headers(sign(key)), body).entries.length, 1);
  assert.equal(webhook.read(new Headers(headers(`v1a,xx v1,AAAA ${sign(key)}`)), body.toString()).feed, "show");
  assert.equal(webhook.read({ "Webhook-Id": "msg_1", "Webhook-Timestamp": stamp, "Webhook-Signature": sign(key) }, new Uint8Array(body)).batch, "1");
  const sample = Buffer.from(JSON.stringify({ type: "entries", test: true, entries: [{}] }));
  assert.deepEqual(webhook.read(headers(sign(key, sample)), sample).entries, []);
  const strangers = Array.from({ length: 8 }, () => sign(randomBytes(32))).join(" ");
  for (const [given, text] of [
    [headers(sign(randomBytes(32))), body], [headers(sign(key)), Buffer.concat([body, Buffer.from(" ")])], [{}, body],
    [headers(sign(key), String(Number(stamp) - 301)), body], [headers(sign(key), "now"), body], [headers(`${strangers} ${sign(key)}`), body],
  ]) assert.throws(() => webhook.read(given, text), BadSignature);
  assert.throws(() => webhook.read(headers(sign(key)), JSON.parse(body)), TypeError);
});
