// Runs in a page of the gateway, with a WebSocket and a clock of its own; what it ends with goes to
// arguments[0]: "ok", or what is wrong. See client.rs.

const done = arguments[0];

const equal = (got, wanted, what) => {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what}: ${a}, not ${b}`);
};

function foldsStrictly({ Fold }) {
  const row = (id, rev = 1) => ({ row: id, rev });
  const ids = (fold) => fold.rows.map((row) => row.row).join(" ");
  const fold = new Fold();
  const take = (frame, wanted, what) => equal(fold.take(frame), wanted, what);

  take({ type: "delta", seq: 1, ops: [] }, "gap", "a delta before any snapshot");
  take({ type: "snapshot", epoch: "e", seq: 3, capacity: 2, rows: [row("b"), row("a")] }, "snapshot", "a snapshot");
  const later = { type: "delta", seq: 5, later: 1, ops: [{ op: "add", seq: 4, row: row("c") }, { op: "later", seq: 5 }] };
  take(later, "delta", "an op of a later version");
  equal(ids(fold), "c b", "added in front, cut to capacity");
  const before = fold.rows;
  take({ type: "delta", seq: 7, ops: [{ op: "add", seq: 7, row: row("d") }] }, "gap", "a hole");
  take({ type: "delta", seq: 5, ops: [{ op: "add", seq: 5, row: row("d") }] }, "gap", "a repeat");
  take({ type: "delta", seq: 7, ops: [{ op: "add", seq: 6, row: row("d") }] }, "gap", "a seq that is not the last op's");
  take(
    { type: "delta", seq: 8, ops: [{ op: "add", seq: 6, row: row("d") }, { op: "add", seq: 8, row: row("e") }] },
    "gap",
    "a hole inside",
  );
  equal([fold.position, fold.rows === before], ["e:5", true], "a gap changes nothing");
  const both = [{ op: "update", seq: 6, row: row("b", 2) }, { op: "remove", seq: 7, row: "c", reason: "retracted" }];
  take({ type: "delta", seq: 7, ops: both }, "delta", "update and remove");
  equal(fold.rows, [row("b", 2)], "updated in place, removed");
  take({ type: "keepalive", seq: 7 }, "none", "a keepalive in step");
  take({ type: "keepalive", seq: 8 }, "gap", "a keepalive out of step");
  take({ type: "later" }, "none", "a frame of a later version");
  const drop = (name, free) => ({ drop: name, free });
  equal(fold.drops, [], "a feed without drops");
  const told = [{ op: "drop", seq: 8, drop: drop("b", 2) }, { op: "drop", seq: 9, drop: drop("a", 1) }];
  take({ type: "delta", seq: 9, ops: told }, "delta", "drops");
  const first = fold.drops;
  take({ type: "delta", seq: 10, ops: [{ op: "drop", seq: 10, drop: drop("b", 0) }] }, "delta", "a drop's new state");
  equal([fold.drops, first], [[drop("a", 1), drop("b", 0)], [drop("a", 1), drop("b", 2)]], "by name, never in place");
  const whole = { type: "snapshot", epoch: "e", seq: 7, capacity: 2, rows: [row("b", 2)] };
  take({ ...whole, drops: [drop("c", 3)] }, "snapshot", "a snapshot with drops");
  equal(fold.drops, [drop("c", 3)], "replaced");
  take(whole, "snapshot", "a snapshot without");
  equal(fold.drops, [], "gone");
  fold.rewind();
  take({ type: "resumed", epoch: "e", seq: 7 }, "none", "resumed");
  take({ type: "resumed", epoch: "e", seq: 6 }, "gap", "resumed elsewhere");
  equal(fold.position, null, "then only a snapshot helps");
}

function backsOff({ backoff, afterClose, feedUrl, connect }) {
  equal([0, 1, 5, 6, 99].map((n) => backoff(n, () => 1)), [500, 1000, 16000, 20000, 20000], "ceilings");
  equal(backoff(9, () => 0), 0, "full jitter");
  const codes = [1000, 1006, 4000, 4099, 4100, 4129, 4200, 4299];
  equal(codes.map(afterClose), ["again", "again", "stop", "stop", "slow", "slow", "again", "again"], "close codes");
  const at = { feed: "a.b", since: "e:1", token: "t&" };
  equal(feedUrl("https://x/y/?q#h", "ws", at), "wss://x/y/v1/feeds/a.b/ws?since=e%3A1&token=t%26", "a socket's address");
  equal(feedUrl("wss://x:1", "sse", { feed: "f" }), "https://x:1/v1/feeds/f/sse", "a stream's address");
  let refused = false;
  try {
    connect({ url: "http://x", feed: "a/b" });
  } catch (error) {
    refused = error instanceof TypeError;
  }
  equal(refused, true, "a bad feed name is refused");
}

/** Runs with sockets, streams, chance and a clock that the check holds in its hands. */
async function inAWorldOfItsOwn(run) {
  let now = 0;
  let timers = [];
  const real = { WebSocket, EventSource, setTimeout, clearTimeout, now: Date.now, random: Math.random };
  window.setTimeout = (run, ms) => {
    const timer = { run, at: now + ms };
    timers.push(timer);
    return timer;
  };
  window.clearTimeout = (timer) => {
    timers = timers.filter((other) => other !== timer);
  };
  Date.now = () => now;
  Math.random = () => 1;
  const pass = (ms) => {
    const end = now + ms;
    for (;;) {
      timers.sort((a, b) => a.at - b.at);
      if (!timers.length || timers[0].at > end) break;
      const timer = timers.shift();
      now = timer.at;
      timer.run();
    }
    now = end;
  };

  const sockets = [];
  window.WebSocket = class {
    constructor(url) {
      const open = sockets.filter((socket) => !socket.gone && !socket.givenUp());
      equal(open.length, 0, "never two sockets at once");
      this.url = url.replace("ws://h/v1/feeds/f/ws", "");
      this.readyState = 1;
      this.sent = [];
      sockets.push(this);
    }
    send(text) {
      this.sent.push(text);
    }
    /** Asked to close, and still not closed 3 s later. */
    givenUp() {
      return this.closing && now - this.closing >= 3000;
    }
    close() {
      this.closing = now || 1;
    }
    end(code) {
      this.gone = true;
      this.onclose?.({ code, reason: "" });
    }
    say(frame) {
      this.onmessage?.({ data: typeof frame === "string" ? frame : JSON.stringify({ feed: "f", ...frame }) });
    }
  };

  const streams = [];
  window.EventSource = class extends EventTarget {
    constructor(url) {
      super();
      this.url = url.replace("http://h/v1/feeds/f/sse", "");
      streams.push(this);
    }
    close() {
      this.gone = true;
    }
    end() {
      const event = new Event("error");
      this.onerror(event);
      this.dispatchEvent(event);
    }
    say(frame) {
      this.dispatchEvent(new MessageEvent(frame.type, { data: JSON.stringify({ feed: "f", ...frame }) }));
    }
  };

  try {
    await run({ pass, sockets, streams, left: () => timers.length });
  } finally {
    const { now: clock, random, ...others } = real;
    Object.assign(window, others);
    Date.now = clock;
    Math.random = random;
  }
}

const snapshot = { type: "snapshot", capacity: 10, keepalive_ms: 25000, skipped: 0 };

function reconnects({ connect }) {
  return inAWorldOfItsOwn(({ pass, sockets, left }) => {
    const lists = [];
    const states = [];
    const watch = connect({
      url: "http://h",
      feed: "f",
      onChange: ({ rows }, { kind }) => lists.push(`${kind} ${rows.map((row) => row.row)}`),
      onState: (state, { retryInMs, code }) => states.push([state, retryInMs ?? code].join(" ").trim()),
    });
    const last = () => sockets[sockets.length - 1];
    const add = (seq, id) => ({ type: "delta", seq, ops: [{ op: "add", seq, row: { row: id, rev: 1 } }] });

    equal(last().url, "", "a first connection asks for no position");
    last().say({ ...snapshot, epoch: "e", seq: 1, rows: [{ row: "a", rev: 1 }] });
    last().say(add(3, "c"));
    pass(2000);
    equal(sockets.length, 1, "after a gap the next waits until this one is closed");
    last().end(1006);
    pass(500);
    equal([sockets.length, last().url], [2, "?since=e%3A1"], "after a gap it resumes");

    last().say({ type: "resumed", epoch: "e", seq: 1, keepalive_ms: 25000 });
    last().say(add(2, "b"));
    pass(29_000);
    equal(Boolean(last().closing), false, "silence within the promise");
    pass(1_001);
    equal(Boolean(last().closing), true, "silence beyond the promise");
    pass(3_000 + 500);
    equal([sockets.length, last().url], [3, "?since=e%3A2"], "a dead line is given up and resumed");

    last().say({ type: "resumed", epoch: "e", seq: 1, keepalive_ms: 25000 });
    last().end(1006);
    pass(1_000);
    equal([sockets.length, last().url], [4, ""], "resumed elsewhere: a whole snapshot is asked for");

    last().say({ ...snapshot, epoch: "e2", seq: 9, rows: [{ row: "z", rev: 1 }] });
    last().say({ type: "goodbye", reason: "shutdown", reconnect_in_ms: 1234 });
    last().end(4200);
    pass(1_233);
    equal(sockets.length, 4, "goodbye's time is kept");
    pass(1);
    equal([sockets.length, last().url], [5, "?since=e2%3A9"], "goodbye's time is over");

    last().say("not json");
    last().end(1006);
    pass(4_000);
    equal(sockets.length, 6, "no frame at all is a gap, and the back-off has grown");

    last().end(4129);
    pass(7_999);
    equal(sockets.length, 6, "too many: it backs off well");
    pass(1);
    equal(sockets.length, 7, "and comes back");
    last().end(4003);
    pass(1_000_000);
    equal([sockets.length, states[states.length - 1]], [7, "closed 4003"], "forbidden is the end");
    equal(lists, ["snapshot a", "delta b,a", "snapshot z"], "what was shown");
    watch.close();
    equal(states.filter((state) => state.startsWith("closed")).length, 1, "closed once");
    equal(left(), 0, "no timer is left");
  });
}

function fallsBackToAStream({ connect }) {
  return inAWorldOfItsOwn(({ pass, sockets, streams, left }) => {
    const told = [];
    const watch = connect({
      url: "http://h",
      feed: "f",
      onChange: ({ seq }) => told.push(seq),
      onState: (state, { transport }) => transport && told.push(transport),
    });
    const tries = () => [sockets.length, streams.length];
    sockets[0].end(1006);
    pass(500);
    equal(tries(), [2, 0], "one lost socket proves nothing");
    sockets[1].end(1006);
    pass(1_000);
    equal(tries(), [2, 1], "no socket ever spoke: a stream");
    streams[0].say({ ...snapshot, epoch: "e", seq: 4, rows: [] });
    streams[0].say({ type: "delta", seq: 5, ops: [{ op: "later", seq: 5 }] });
    equal(told, ["sse", 4, 5], "the same frames");
    pass(30_001);
    equal(streams[0].gone, true, "a silent stream is given up");
    pass(500);
    equal([...tries(), sockets[2].url], [3, 1, "?since=e%3A5"], "the next try is a socket again, from where it stood");
    sockets[2].say({ type: "resumed", epoch: "e", seq: 5, keepalive_ms: 25000 });
    for (let n = 3; n < 7; n += 1) {
      sockets[sockets.length - 1].end(1006);
      pass(20_000);
    }
    equal(tries(), [7, 1], "a socket once spoke: streams are needed no more");
    watch.close();
    equal(left(), 0, "no timer is left");
  });
}

function wakes({ connect }) {
  return inAWorldOfItsOwn(({ pass, sockets, left }) => {
    const watch = connect({ url: "http://h", feed: "f" });
    const last = () => sockets[sockets.length - 1];
    last().say({ ...snapshot, epoch: "e", seq: 1, rows: [] });
    for (let n = 0; n < 8; n += 1) {
      last().end(1006);
      pass(20_000);
    }
    last().end(1006);
    const before = sockets.length;
    window.dispatchEvent(new Event("online"));
    pass(500);
    equal(sockets.length, before + 1, "the network is back: no need to wait out the back-off");
    last().say({ type: "resumed", epoch: "e", seq: 1, keepalive_ms: 25000 });
    window.dispatchEvent(new Event("offline"));
    equal(Boolean(last().closing), false, "offline alone says little: the gateway may be near");
    window.dispatchEvent(new Event("online"));
    equal(Boolean(last().closing), true, "another network: the old line is replaced");
    last().end(1006);
    pass(500);
    equal(last().url, "?since=e%3A1", "and resumed");
    last().say({ type: "resumed", epoch: "e", seq: 1, keepalive_ms: 25000 });
    last().say({ type: "goodbye", reason: "shutdown", reconnect_in_ms: 9_000 });
    last().end(4200);
    const asked = sockets.length;
    document.dispatchEvent(new Event("visibilitychange"));
    pass(8_999);
    equal(sockets.length, asked, "a time that the server asked for is kept");
    pass(1);
    equal(sockets.length, asked + 1, "to its end");
    watch.close();
    equal(left(), 0, "no timer is left");
  });
}

/** Lets what waits for answered promises go on. */
async function turns() {
  for (let n = 0; n < 20; n += 1) await null;
}

function asksForTokens({ connect }) {
  return inAWorldOfItsOwn(async ({ pass, sockets, streams, left }) => {
    const states = [];
    const last = () => sockets[sockets.length - 1];
    const onState = (state, { code }) => states.push([state, code].join(" ").trim());
    let asked = 0;
    const watch = connect({ url: "http://h", feed: "f", onState, token: async ({ feed }) => `${feed}${(asked += 1)}` });
    equal(sockets.length, 0, "nothing is opened before the page gave a token");
    await turns();
    equal([sockets.length, last().url], [1, "?token=f1"], "then with it");
    last().say({ ...snapshot, epoch: "e", seq: 1, rows: [{ row: "a", rev: 1 }] });
    pass(12_000);
    last().say({ type: "token", expires_in_ms: 30_000 });
    last().say({ type: "token", expires_in_ms: 29_000 });
    await turns();
    equal([asked, last().sent], [2, ['{"type":"auth","token":"f2"}']], "renewed once, over the socket that is there");
    last().end(4101);
    pass(0);
    await turns();
    equal([sockets.length, last().url, watch.rows.length], [2, "?since=e%3A1&token=f3", 1], "a new one, and the list stays");
    last().say({ type: "resumed", epoch: "e", seq: 1, keepalive_ms: 25_000 });
    last().end(1006);
    pass(1_000);
    equal([sockets.length, asked, last().url], [3, 3, "?since=e%3A1&token=f3"], "a lost line needs no new one");
    last().end(4001);
    pass(0);
    await turns();
    equal([asked, last().url], [4, "?since=e%3A1&token=f4"], "one that is refused does");
    last().end(4003);
    equal([asked, states.at(-1)], [4, "closed 4003"], "once");

    const fixed = connect({ url: "http://h", feed: "f", onState, token: "t" });
    last().say({ ...snapshot, epoch: "e", seq: 1, rows: [] });
    last().end(4101);
    equal(states.at(-1), "closed 4101", "a text has no other");

    let failing = true;
    const late = connect({ url: "http://h", feed: "f", token: async () => failing ? Promise.reject(new Error("no")) : "ok" });
    const before = sockets.length;
    await turns();
    failing = false;
    pass(500);
    await turns();
    equal([sockets.length, last().url], [before + 1, "?token=ok"], "a page that gave none is asked again");
    last().end(4100);
    last().end(1006);
    late.close();

    const hanging = connect({ url: "http://h", feed: "f", token: () => new Promise(() => {}) });
    await turns();
    hanging.close();
    pass(60_000);

    // Event streams have no codes: what they said last stands for one.
    const stream = connect({ url: "http://h", feed: "f", WebSocket: null, onState, token: async () => `s${(asked += 1)}` });
    fixed.close();
    await turns();
    if (streams.length) {
      streams.at(-1).say({ ...snapshot, epoch: "e", seq: 1, rows: [] });
      streams.at(-1).say({ type: "error", code: "forbidden" });
      streams.at(-1).end();
      pass(0);
      await turns();
      equal(asked, 6, "a stream that is refused asks again");
    }
    stream.close();
    equal(left(), 0, "no timer is left");
  });
}

import("/static/tipcast.js")
  .then(async (client) => {
    foldsStrictly(client);
    backsOff(client);
    await reconnects(client);
    await fallsBackToAStream(client);
    await wakes(client);
    await asksForTokens(client);
    done("ok");
  })
  .catch((error) => done(String(error.stack ?? error)));
