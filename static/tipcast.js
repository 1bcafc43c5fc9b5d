/**
 * Tipcast's client: an ES module without dependencies.
 *
 *     import { connect } from "/static/tipcast.js";
 *     const feed = connect({ feed: "demo", onChange: ({ rows }) => render(rows) });
 *     feed.close();
 *
 * It keeps one WebSocket to one feed and folds its frames strictly: what `onChange` shows is the
 * server's list at that seq, or the client notices and asks again from where it stood.
 * The protocol is docs/PROTOCOL.md.
 */

/** Times in milliseconds. */
const BACKOFF_FIRST = 500;
const BACKOFF_MOST = 20_000;
/** Connecting, up to the first frame of the feed. */
const FIRST_FRAME = 15_000;
/** Past the promised keepalive before the line counts as dead. */
const KEEPALIVE_GRACE = 5_000;
/** How long a socket may take to close before it is given up; nothing of it is heard any more. */
const CLOSING = 3_000;
/** A connection that lived this long was a good one: the next back-off starts small again. */
const STEADY = 10_000;

const FEED_NAME = /^[A-Za-z0-9_.-]{1,64}$/;

/**
 * The list of one feed and where it stands, changed by frames only. No I/O: feed it frames in
 * order. `rows` is a new array after every change, newest first; it is never changed in place.
 */
export class Fold {
  /** `start`: what is already known, `{epoch, seq, capacity?, rows?}`, or nothing. */
  constructor(start) {
    this.epoch = start?.epoch ?? null;
    this.seq = start?.seq ?? 0;
    this.capacity = start?.capacity ?? 100;
    this.rows = start?.rows ?? [];
    /** False until the first snapshot or resumed of a connection: deltas before it are a fault. */
    this.begun = false;
  }

  /** `epoch:seq`, or null before anything is known. */
  get position() {
    return this.epoch === null ? null : `${this.epoch}:${this.seq}`;
  }

  /** A new connection: it has to begin with a snapshot or a resumed. */
  rewind() {
    this.begun = false;
  }

  /**
   * Takes one frame. Answers "snapshot" or "delta" when the list changed, "none" when it did not,
   * and "gap" when this connection can no longer be trusted: connect again from `position`.
   */
  take(frame) {
    switch (frame.type) {
      case "snapshot":
        this.rows = frame.rows.slice(0, frame.capacity);
        this.capacity = frame.capacity;
        this.epoch = frame.epoch;
        this.seq = frame.seq;
        this.begun = true;
        return "snapshot";
      case "resumed":
        if (frame.epoch !== this.epoch || frame.seq !== this.seq) {
          // Not where this list stands: only a snapshot helps.
          this.epoch = null;
          return "gap";
        }
        this.begun = true;
        return "none";
      case "delta":
        return this.begun ? this.#delta(frame) : "gap";
      case "keepalive":
        return this.begun && frame.seq === this.seq ? "none" : "gap";
      default:
        return "none";
    }
  }

  /** All of it or nothing: a delta with a hole anywhere leaves the list as it was. */
  #delta({ seq, ops }) {
    const whole = ops.every((op, i) => op.seq === this.seq + 1 + i);
    if (!whole || seq !== this.seq + ops.length) return "gap";
    let rows = this.rows.slice();
    for (const op of ops) {
      if (op.op === "add") {
        rows = [op.row, ...rows.filter((row) => row.row !== op.row.row)].slice(0, this.capacity);
      } else if (op.op === "update") {
        rows = rows.map((row) => (row.row === op.row.row ? op.row : row));
      } else if (op.op === "remove") {
        rows = rows.filter((row) => row.row !== op.row);
      }
      // An op of a later version only counts.
    }
    this.rows = rows;
    this.seq = seq;
    return ops.length ? "delta" : "none";
  }
}

/** Full jitter: anywhere between nothing and the `failures`-th ceiling, 0.5 s doubling to 20 s. */
export function backoff(failures, random = Math.random) {
  const ceiling = Math.min(BACKOFF_MOST, BACKOFF_FIRST * 2 ** Math.min(failures, 16));
  return Math.round(random() * ceiling);
}

/** What a close code asks of a client: "stop", "slow" (back off well) or "again". */
export function afterClose(code) {
  if (code >= 4000 && code <= 4099) return "stop";
  if (code >= 4100 && code <= 4199) return "slow";
  return "again";
}

/** The address of a feed's WebSocket on the gateway at `base` (http, https, ws or wss). */
export function socketUrl(base, feed, since) {
  const url = new URL(`v1/feeds/${encodeURIComponent(feed)}/ws`, base.replace(/\/*$/, "/"));
  url.protocol = url.protocol.replace(/^http/, "ws");
  if (since) url.searchParams.set("since", since);
  return url.href;
}

/** `epoch:seq` taken apart, or undefined. */
function parsePosition(text) {
  const parts = /^([A-Za-z0-9_-]{1,32}):([0-9]{1,16})$/.exec(text ?? "");
  return parts ? { epoch: parts[1], seq: Number(parts[2]) } : undefined;
}

/**
 * Watches `feed` of the gateway at `url` (default: where the page came from) until `close()`.
 *
 * - `since`: a position `epoch:seq` to resume from; give the `rows` and `capacity` that belong to
 *   it too, or the list starts empty and holds only what came later (or a whole snapshot).
 * - `onChange(list, change)`: `list` is `{feed, epoch, seq, capacity, rows}`; `change` is
 *   `{kind: "snapshot", skipped, drops?}` or `{kind: "delta", ops}`.
 * - `onState(state, detail)`: "connecting"; "live"; "waiting" with `{retryInMs}`; "closed" with
 *   `{code, reason}`, after which nothing more comes.
 *
 * Gives back `{close(), position, rows}`.
 */
export function connect({ url, feed, since, rows, capacity, onChange, onState }) {
  if (!FEED_NAME.test(feed)) throw new TypeError("a feed is 1 to 64 of A-Z a-z 0-9 _ - .");
  const base = String(url ?? globalThis.location.origin);
  const known = parsePosition(since);
  const fold = new Fold(known && { ...known, rows, capacity });

  // At most one of them is set: the socket that is heard, or the timer that opens the next.
  let socket = null;
  let retry = null;
  let watchdog = null;
  let failures = 0;
  let stopped = false;

  // A callback that throws is the page's fault and must not break the fold.
  const call = (callback, ...args) => {
    try {
      callback?.(...args);
    } catch (error) {
      (globalThis.reportError ?? console.error)(error);
    }
  };

  function open() {
    retry = null;
    call(onState, "connecting", {});
    if (stopped) return;
    fold.rewind();
    const openedAt = Date.now();
    let heardAt = openedAt;
    let silence = FIRST_FRAME;
    let wait = null;
    const ws = new WebSocket(socketUrl(base, feed, fold.position));
    socket = ws;

    ws.onmessage = ({ data }) => {
      heardAt = Date.now();
      let frame;
      let outcome;
      try {
        frame = JSON.parse(data);
        if (frame.feed !== undefined && frame.feed !== feed) return;
        outcome = fold.take(frame);
      } catch {
        // Not a frame of this protocol: the line is not to be trusted.
        return leave();
      }
      if (outcome === "gap") return leave();
      if (frame.type === "goodbye" && frame.reconnect_in_ms >= 0) wait = frame.reconnect_in_ms;
      if (frame.type === "snapshot" || frame.type === "resumed") {
        if (frame.keepalive_ms > 0) silence = frame.keepalive_ms + KEEPALIVE_GRACE;
        call(onState, "live", {});
      }
      // onState may have closed the connection.
      if (outcome === "none" || socket !== ws) return;
      const { epoch, seq, capacity, rows } = fold;
      const change =
        outcome === "snapshot"
          ? { kind: outcome, skipped: frame.skipped ?? 0, drops: frame.drops }
          : { kind: outcome, ops: frame.ops };
      call(onChange, { feed, epoch, seq, capacity, rows }, change);
    };
    ws.onclose = ({ code, reason }) => closed(code, reason);

    function closed(code, reason) {
      if (socket !== ws) return;
      const next = afterClose(code);
      if (next === "stop") return finish(code, reason);
      if (fold.begun && Date.now() - openedAt >= STEADY) failures = 0;
      if (next === "slow") failures = Math.max(failures, 4);
      later(wait ?? backoff(failures));
    }

    // One timer that looks when something was last heard, instead of one timer per frame.
    function look() {
      const left = heardAt + silence - Date.now();
      if (left <= 0) return leave();
      watchdog = setTimeout(look, left);
    }
    watchdog = setTimeout(look, silence);

    /** Gives this socket up: nothing of it is heard any more, the next opens when it has closed. */
    function leave() {
      clearTimeout(watchdog);
      ws.onmessage = null;
      watchdog = setTimeout(() => closed(1006, ""), CLOSING);
      ws.close();
    }
  }

  function later(ms) {
    clearTimeout(watchdog);
    socket = null;
    failures += 1;
    retry = setTimeout(open, ms);
    call(onState, "waiting", { retryInMs: ms });
  }

  function finish(code, reason) {
    if (stopped) return;
    stopped = true;
    clearTimeout(watchdog);
    clearTimeout(retry);
    const last = socket;
    socket = null;
    if (last) {
      last.onmessage = last.onclose = null;
      last.close();
    }
    call(onState, "closed", { code, reason });
  }

  open();
  return {
    close: () => finish(1000, ""),
    get position() {
      return fold.position;
    },
    get rows() {
      return fold.rows;
    },
  };
}
