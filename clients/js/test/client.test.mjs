import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { createServer, request } from "node:http";
import { EventSource } from "eventsource";
import WebSocket, { WebSocketServer } from "ws";
import * as client from "tipcast/client";
import * as fold from "tipcast/fold";
import * as all from "tipcast";
import { Gateway } from "./gateway.mjs";

const require = createRequire(import.meta.url);
// As a data URL, because no package.json beside it says that it is a module.
const runner = readFileSync(new URL("../../../tests/it/vectors/run.js", import.meta.url), "utf8");
const { runVectors } = await import(`data:text/javascript,${encodeURIComponent(runner)}`);
const gift = (n) => ({ id: `g${n}`, user: { id: `u${n}`, name: "Mia" }, gift: { id: "rose", name: "Rose" } });

/** Waits until `is()`, which is asked whenever something changed. */
function until(is, what) {
  return new Promise((done, fail) => {
    const late = setTimeout(() => fail(new Error(`never: ${what}`)), 60_000);
    const look = () => {
      if (!is()) return setTimeout(look, 10);
      clearTimeout(late);
      done();
    };
    look();
  });
}

function watch(t, gateway, more = {}) {
  const seen = { seqs: [], states: [], list: null };
  const feed = client.connect({
    url: gateway.url,
    feed: "show",
    WebSocket,
    onChange(list) {
      seen.list = list;
      seen.seqs.push(list.seq);
    },
    onState: (state, detail) => seen.states.push([state, detail]),
    ...more,
  });
  t.after(() => feed.close());
  return { feed, seen };
}

test("every shared vector folds the same, imported and required", () => {
  const folder = new URL("../../../docs/protocol/vectors/", import.meta.url);
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  const vectors = files.flatMap((name) => JSON.parse(readFileSync(new URL(name, folder), "utf8")).vectors);
  assert.ok(vectors.length > 10, "the vectors are where they are looked for");
  assert.deepEqual(runVectors(fold.Fold, vectors), []);
  assert.deepEqual(runVectors(require("tipcast/fold").Fold, vectors), []);
});

test("the modules are the ones that a gateway serves", async (t) => {
  const gateway = await Gateway.start(t);
  const own = ["preact.js", ...readdirSync(new URL("../src/", import.meta.url))];
  const names = readdirSync(new URL("../dist/", import.meta.url)).filter((name) => name.endsWith(".js") && !own.includes(name));
  assert.ok(names.length > 10);
  for (const name of names) {
    const served = await (await fetch(`${gateway.url}/static/${name}`)).text();
    assert.equal(served, readFileSync(new URL(`../dist/${name}`, import.meta.url), "utf8"), name);
  }
});

test("each entry has what it is for, also by require, and the client brings no element", () => {
  assert.deepEqual(Object.keys(client).sort(), ["Fold", "afterClose", "backoff", "connect", "feedUrl", "reconnecting"]);
  assert.deepEqual(Object.keys(all).sort(), [...Object.keys(client), "TipcastTicker"].sort());
  assert.deepEqual(Object.keys(require("tipcast/client")).sort(), Object.keys(client).sort());
  assert.equal(typeof require("tipcast/element").TipcastTicker, "function");
});

test("where there is no WebSocket, or no page that tells the gateway, it says what to do", { skip: globalThis.WebSocket && "this Node has one" }, () => {
  assert.throws(() => client.connect({ url: "http://127.0.0.1:1", feed: "show" }), /Node 22 or newer.*package ws/);
  assert.throws(() => client.connect({ feed: "show", WebSocket }), /`url` is missing/);
});

test("with an injected WebSocket it follows a feed through kill -9 without a gap", async (t) => {
  const gateway = await Gateway.start(t);
  const { feed, seen } = watch(t, gateway);
  for (let n = 1; n <= 5; n++) await gateway.post("show", gift(n));
  await until(() => seen.list?.seq === 5, "five gifts");
  await gateway.crash();
  for (let n = 6; n <= 9; n++) await gateway.post("show", gift(n));
  await until(() => seen.list?.seq === 9, "four more after kill -9");
  assert.deepEqual(seen.list.rows, (await gateway.list("show")).rows);
  assert.deepEqual([...seen.seqs].sort((a, b) => a - b), seen.seqs, "never backwards");
  assert.ok(seen.states.some(([state]) => state === "waiting"));
  feed.close();
  assert.equal(seen.states.at(-1)[0], "closed");
});

test("a position with its list goes on later, and what was missed comes as changes", async (t) => {
  const gateway = await Gateway.start(t);
  for (let n = 1; n <= 3; n++) await gateway.post("show", gift(n));
  const first = watch(t, gateway);
  await until(() => first.seen.list?.seq === 3, "the list");
  const { position } = first.feed;
  const { rows, capacity } = first.seen.list;
  first.feed.close();
  await gateway.post("show", gift(4));
  const kinds = [];
  const second = watch(t, gateway, { since: position, rows, capacity, onChange: (list, { kind }) => kinds.push([kind, list.rows.length]) });
  await until(() => kinds.length > 0, "a change");
  assert.deepEqual(kinds, [["delta", 4]]);
  second.feed.close();
});

test("a gateway that refuses for good is not asked again", async (t) => {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  t.after(() => server.close());
  await once(server, "listening");
  let asked = 0;
  server.on("connection", (socket) => {
    asked += 1;
    socket.close(4003, "not for you");
  });
  const { seen } = watch(t, { url: `http://127.0.0.1:${server.address().port}` });
  await until(() => seen.states.at(-1)[0] === "closed", "the end");
  assert.deepEqual([asked, seen.states.at(-1)[1]], [1, { code: 4003, reason: "not for you" }]);
});

/** A proxy in front of a gateway, which answers 502 while the gateway is away, or when a test asks for it. */
async function proxied(t, gateway) {
  const open = new Set();
  const proxy = { away: false, asked: [], refused: 0 };
  const server = createServer((req, res) => {
    open.add(res);
    proxy.asked.push(new URL(req.url, "http://proxy").searchParams.get("since"));
    const refuse = () => {
      proxy.refused += 1;
      if (!res.headersSent) res.writeHead(502);
      res.end();
    };
    if (proxy.away) return refuse();
    const target = request(gateway.url + req.url, { headers: { ...req.headers, host: new URL(gateway.url).host } }, (answer) => {
      res.writeHead(answer.statusCode, answer.headers);
      answer.on("error", () => res.destroy()).pipe(res);
    });
    target.on("error", refuse).end();
  });
  t.after(() => (open.forEach((res) => res.destroy()), server.close()));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  proxy.cut = () => open.forEach((res) => res.destroy());
  return proxy;
}

test("an event stream comes back behind a proxy that says 502, from where it stood", async (t) => {
  const gateway = await Gateway.start(t);
  const proxy = await proxied(t, gateway);
  const stream = client.reconnecting(`${proxy.url}/v1/feeds/show/sse`, { EventSource });
  t.after(() => stream.close());
  const list = new fold.Fold();
  const gaps = [];
  for (const name of ["snapshot", "resumed", "delta"]) {
    stream.addEventListener(name, ({ data }) => gaps.push(list.take(JSON.parse(data))));
  }
  for (let n = 1; n <= 3; n++) await gateway.post("show", gift(n));
  await until(() => list.seq === 3 && stream.readyState === 1, "three gifts");
  proxy.away = true;
  proxy.cut();
  await until(() => proxy.refused >= 2, "it is refused, and asks again");
  assert.equal(stream.readyState, 0);
  for (let n = 4; n <= 5; n++) await gateway.post("show", gift(n));
  proxy.away = false;
  await until(() => list.seq === 5, "what was missed");
  assert.ok(!gaps.includes("gap"), gaps.join());
  assert.deepEqual(list.rows, (await gateway.list("show")).rows);
  assert.equal(proxy.asked.at(-1), `${list.epoch}:3`);
  assert.equal(stream.lastEventId, `${list.epoch}:5`);
  stream.close();
  const asked = proxy.asked.length;
  proxy.cut();
  await gateway.post("show", gift(6));
  assert.deepEqual([stream.readyState, list.seq, proxy.asked.length], [2, 5, asked]);
});

test("a stream asks for its address each time anew, also while nobody can give one", async (t) => {
  const gateway = await Gateway.start(t);
  await gateway.post("show", gift(1));
  let asked = 0;
  const address = async () => {
    asked += 1;
    if (asked < 3) throw new Error("no token yet");
    return `${gateway.url}/v1/feeds/show/sse?token=${asked}`;
  };
  const stream = client.reconnecting(address, { EventSource });
  t.after(() => stream.close());
  let seq = 0;
  stream.addEventListener("snapshot", ({ data }) => (seq = JSON.parse(data).seq));
  await until(() => seq === 1, "the list");
  assert.equal(asked, 3);
  assert.throws(() => client.reconnecting("nowhere", { EventSource }), /URL/);
  assert.throws(() => client.reconnecting(gateway.url, { EventSource: null }), /package eventsource/);
});
