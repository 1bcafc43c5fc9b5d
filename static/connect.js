/**
 * One feed, kept up to date over one connection at a time. What `onChange` shows is the server's
 * list at that seq, or the client notices and asks again from where it stood.
 */

import { Fold, afterClose, backoff, feedUrl, parsePosition } from "./fold.js";
import { byEvents, bySocket } from "./lines.js";

/** Times in milliseconds. */
/** Connecting, up to the first frame of the feed. */
const FIRST_FRAME = 15_000;
/** Past the promised keepalive before the line counts as dead. */
const KEEPALIVE_GRACE = 5_000;
/** What a page that was asleep leaves its socket, to bring what the browser held back meanwhile. */
const WAKING = 1_500;
/** How long a line may take to close before it is given up; nothing of it is heard any more. */
const CLOSING = 3_000;
/** How long a page may take to give a token. */
const TOKEN_WITHIN = 15_000;
/** A connection that lived this long was a good one: the next back-off starts small again. */
const STEADY = 10_000;
/** WebSockets in a row that never brought a frame, before an event stream is tried. */
const SOCKETS_FIRST = 2;

/** Reached also without any network. */
const LOOPBACK = /\/\/([^/]*[@.])?(localhost([:/]|$)|127\.|\[::1)/;

/** With what a socket would have been closed, by what an event stream says last. */
const ENDED_BY = { unauthenticated: 4001, bad_token: 4001, forbidden: 4003, token_expired: 4101 };

const FEED_NAME = /^[A-Za-z0-9_.-]{1,64}$/;

// A callback that throws is the page's fault and must not break the fold.
function call(callback, ...args) {
  try {
    callback?.(...args);
  } catch (error) {
    (globalThis.reportError ?? console.error)(error);
  }
}

/**
 * Watches `feed` of the gateway at `url` (default: where the page came from) until `close()`.
 *
 * - `since`: a position `epoch:seq` to resume from; give the `rows`, `drops` and `capacity` that
 *   belong to it too, or the list starts empty and holds only what came later (or a whole snapshot).
 * - `without`: "totals" leaves totals, leaders and goals out; the list's `totals` and `goals` stay empty.
 * - `as`: "overlay" has it counted among the feed's overlays, which the host's desk shows.
 * - `WebSocket`, `EventSource`: classes to use in place of the global ones, for Node 20 that of the package `ws`.
 * - `token`: a viewer's token, or a function that gives one or a promise of one. The function is asked before the
 *   first connection, again when the token is about to end, and once more when it was refused; the list stays.
 * - `onChange(list, change)`: `list` is `{feed, epoch, seq, capacity, rows, drops, control, totals, goals}`; `change` is
 *   `{kind: "snapshot", skipped, drops?}` or `{kind: "delta", ops}`.
 * - `onState(state, detail)`: "connecting"; "live" with `{transport}`; "waiting" with
 *   `{retryInMs}`; "closed" with `{code, reason}`, after which nothing more comes.
 *
 * Gives back `{close(), position, rows, drops, heardAt, serverTime()}`.
 */
export function connect(options) {
  return new Connection(options).handle();
}

class Connection {
  // At most one of the two is set: the line that is heard, or the timer that opens the next.
  #line = null;
  #retry = null;
  #watchdog = null;
  #failures = 0;
  /** What the page's function gave last; undefined: it is to be asked. */
  #given;
  /** The question that is open. */
  #asking = null;
  /** A new token was asked for since the last one that was good. */
  #askedAgain = false;
  #mayHurry = true;
  #wasOffline = false;
  #stopped = false;
  /** WebSockets in a row that never brought a frame; -1 once one did, then only they are used. */
  #mute = 0;
  #heardAt = Date.now();
  /** The best lower bound of (server's clock − ours): every stamp it sends is older than its arrival. */
  #ahead = null;

  constructor({ url, feed, since, without, as, token, key, rows, drops, control, capacity, onChange, onState, onPresence, WebSocket, EventSource }) {
    if (!FEED_NAME.test(feed)) throw new TypeError("a feed is 1 to 64 of A-Z a-z 0-9 _ - .");
    const home = url ?? globalThis.location?.origin;
    if (home === undefined) throw new TypeError("`url` is missing: no page here names the gateway");
    this.base = String(home);
    this.transports = {
      WebSocket: WebSocket ?? globalThis.WebSocket,
      EventSource: EventSource ?? globalThis.EventSource,
    };
    if (!this.transports.WebSocket && !this.transports.EventSource) {
      throw new TypeError(
        "there is no WebSocket here: use Node 22 or newer, or give one, connect({ WebSocket }) of the package ws",
      );
    }
    this.feed = feed;
    this.token = token;
    if (without !== undefined && without !== "totals") throw new TypeError('`without` is "totals", or left out');
    this.without = without;
    this.as = as;
    // Of a page for those who moderate; it is never part of an address.
    this.key = key;
    this.onChange = onChange;
    this.onState = onState;
    this.onPresence = onPresence;
    const known = parsePosition(since);
    this.fold = new Fold(known && { ...known, rows, drops, control, capacity });
    // A wrong address is the caller's mistake: it fails now and is not retried.
    feedUrl(this.base, "ws", { feed });
    this.#listen(true);
    this.#open();
  }

  handle() {
    const connection = this;
    return {
      close: () => connection.#finish(1000, ""),
      serverTime: () => Date.now() + (connection.#ahead ?? 0),
      get position() {
        return connection.fold.position;
      },
      get rows() {
        return connection.fold.rows;
      },
      get drops() {
        return connection.fold.drops;
      },
      get control() {
        return connection.fold.control;
      },
      get heardAt() {
        return connection.#heardAt;
      },
    };
  }

  #open() {
    clearTimeout(this.#retry);
    this.#retry = null;
    call(this.onState, "connecting", {});
    if (this.#stopped || this.#line || this.#asking) return;
    if (typeof this.token === "function" && this.#given === undefined) {
      this.#ask(() => this.#open());
      return;
    }
    this.fold.rewind();
    const { WebSocket, EventSource } = this.transports;
    const kind = EventSource && (!WebSocket || this.#mute >= SOCKETS_FIRST) ? "sse" : "ws";
    const at = { feed: this.feed, since: this.fold.position, without: this.without, as: this.as, token: typeof this.token === "function" ? this.#given : this.token };
    const line = { kind, openedAt: Date.now(), heardAt: Date.now(), silence: FIRST_FRAME, wait: null, begun: false };
    this.#line = line;
    const heard = (text) => this.#line === line && !line.left && this.#hear(line, text);
    const ended = (code, reason) => this.#ended(line, code, reason);
    try {
      line.wire = (kind === "ws" ? bySocket : byEvents)(
        feedUrl(this.base, kind, at),
        heard,
        ended,
        this.transports,
        this.key && JSON.stringify({ type: "auth", key: this.key }),
      );
    } catch {
      // The page may not connect there (its own CSP, mixed content): tried again like a lost line.
      line.wire = { close() {} };
      this.#watchdog = setTimeout(ended, 0, 1006, "");
      return;
    }
    this.#watch(line, line.silence);
  }

  /** Asks the page for a token, then goes on; a page that gives none in time is asked again later. */
  #ask(then) {
    const asking = (this.#asking = {});
    const answered = (given, next) => {
      clearTimeout(asking.timer);
      if (this.#asking !== asking || this.#stopped) return;
      this.#asking = null;
      this.#given = given;
      next();
    };
    // A line that still lives goes on until its token ends, and asks again then.
    const none = () => answered(undefined, () => this.#line || this.#later(backoff(this.#failures)));
    asking.timer = setTimeout(none, TOKEN_WITHIN);
    Promise.resolve()
      .then(() => this.token({ feed: this.feed }))
      .then((token) => (token ? answered(String(token), () => then(String(token))) : none()), none);
  }

  #hear(line, text) {
    line.heardAt = this.#heardAt = Date.now();
    let frame;
    let outcome;
    try {
      frame = JSON.parse(text);
      if (frame.feed !== undefined && frame.feed !== this.feed) return;
      outcome = this.fold.take(frame);
    } catch {
      // Not a frame of this protocol: the line is not to be trusted.
      return this.#leave(line);
    }
    if (outcome === "gap") return this.#leave(line);
    if (frame.type === "token" && typeof this.token === "function" && !this.#asking) {
      this.#ask((token) => this.#line === line && line.wire.send?.(JSON.stringify({ type: "auth", token })));
    }
    // An event stream says why it ends; a socket closes with the code for it.
    if (frame.type === "error") line.code = ENDED_BY[frame.code];
    this.#learnTime(frame);
    if (frame.type === "presence") call(this.onPresence, frame.watchers);
    if (frame.type === "goodbye" && frame.reconnect_in_ms >= 0) line.wait = frame.reconnect_in_ms;
    if (frame.type === "snapshot" || frame.type === "resumed") {
      line.begun = true;
      this.#askedAgain = false;
      // A socket that works proves the way: event streams are for where none ever did.
      if (line.kind === "ws") this.#mute = -1;
      if (frame.keepalive_ms > 0) {
        line.silence = frame.keepalive_ms + KEEPALIVE_GRACE;
        // The timer that runs was set for the first frame, which may be later than this.
        this.#watch(line, line.silence);
      }
      call(this.onState, "live", { transport: line.kind });
    }
    // onState may have closed the connection.
    if (outcome === "none" || this.#line !== line) return;
    const { epoch, seq, capacity, rows, drops, control, totals, goals } = this.fold;
    const change =
      outcome === "snapshot"
        ? { kind: outcome, skipped: frame.skipped ?? 0, drops: frame.drops }
        : { kind: outcome, ops: frame.ops };
    call(this.onChange, { feed: this.feed, epoch, seq, capacity, rows, drops, control, totals, goals }, change);
  }

  /** Only what was sent as it happened says something; a snapshot's rows may be hours old. */
  #learnTime({ type, server_time, ops }) {
    const stamps = type === "keepalive" ? [server_time] : type === "delta" ? ops.map((op) => op.row?.updated_at) : [];
    for (const stamp of stamps) {
      const ahead = Date.parse(stamp) - Date.now();
      if (ahead > (this.#ahead ?? -Infinity)) this.#ahead = ahead;
    }
  }

  // One timer that looks when something was last heard, instead of one timer per frame.
  #watch(line, ms) {
    clearTimeout(this.#watchdog);
    const due = Date.now() + ms;
    this.#watchdog = setTimeout(() => {
      const left = line.heardAt + line.silence - Date.now();
      if (left > 0) return this.#watch(line, left);
      // Far too late: the page or the machine slept, and the line gets to say what it held back.
      if (Date.now() - due > WAKING) return this.#watch(line, WAKING);
      this.#leave(line);
    }, ms);
  }

  /** Gives this line up: nothing of it is heard any more, the next opens when it has closed. */
  #leave(line) {
    if (line.left) return;
    line.left = true;
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => this.#ended(line, 1006, ""), CLOSING);
    line.wire.close();
  }

  #ended(line, code, reason) {
    if (this.#line !== line) return;
    if (line.kind === "sse") code = line.code ?? code;
    const asks = typeof this.token === "function";
    // A stream that is refused does not say so: perhaps by its token.
    if (asks && line.kind === "sse" && !line.begun) this.#given = undefined;
    const refused = code === 4001 || code === 4003;
    if (refused || code === 4101) {
      // Asked once: a page that gives the same again is not asked for ever.
      if (!asks || (refused && this.#askedAgain)) return this.#finish(code, reason);
      this.#askedAgain = refused;
      this.#given = undefined;
      // Tokens that do not last are no reason to connect without a pause.
      const lasted = line.begun && Date.now() - line.openedAt >= STEADY;
      if (lasted) this.#failures = 0;
      return this.#later(lasted || refused ? 0 : backoff(this.#failures));
    }
    const next = afterClose(code);
    if (next === "stop") return this.#finish(code, reason);
    if (line.kind === "sse") this.#mute = SOCKETS_FIRST - 1;
    else if (!line.begun && this.#mute >= 0) this.#mute += 1;
    if (line.begun && Date.now() - line.openedAt >= STEADY) this.#failures = 0;
    if (next === "slow") this.#failures = Math.max(this.#failures, 4);
    // A time that the server asked for is kept; our own back-off may be cut short.
    this.#mayHurry = next === "again" && line.wait === null;
    if (line.replaced) this.#failures = 0;
    this.#later(line.wait ?? backoff(this.#failures));
  }

  #later(ms) {
    clearTimeout(this.#watchdog);
    this.#line = null;
    this.#failures += 1;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#open(), ms);
    call(this.onState, "waiting", { retryInMs: ms });
  }

  #listen(on) {
    const change = on ? "addEventListener" : "removeEventListener";
    globalThis[change]?.("online", this.#online);
    globalThis[change]?.("offline", this.#offline);
    globalThis[change]?.("pageshow", this.#wake);
    globalThis.document?.[change]("resume", this.#wake);
    globalThis.document?.[change]("visibilitychange", this.#wake);
  }

  #offline = () => {
    this.#wasOffline = true;
  };

  /** The network is another one now: what was connected over the old one says nothing any more. */
  #online = () => {
    const line = this.#line;
    const moved = this.#wasOffline && !LOOPBACK.test(this.base);
    this.#wasOffline = false;
    if (line && moved && line.begun) {
      line.replaced = true;
      this.#leave(line);
    } else {
      this.#wake();
    }
  };

  /** The page is seen or runs again, after timers may have stood still for hours. */
  #wake = () => {
    if (this.#stopped || globalThis.document?.visibilityState === "hidden") return;
    const line = this.#line;
    if (!line) {
      if (!this.#mayHurry) return;
      this.#failures = 0;
      this.#later(backoff(0));
    } else if (!line.left) {
      const left = line.heardAt + line.silence - Date.now();
      if (left <= 0) this.#watch(line, WAKING);
    }
  };

  #finish(code, reason) {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#listen(false);
    clearTimeout(this.#watchdog);
    clearTimeout(this.#retry);
    const last = this.#line;
    this.#line = null;
    last?.wire.close();
    call(this.onState, "closed", { code, reason });
  }
}
