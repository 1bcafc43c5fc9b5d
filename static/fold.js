/**
 * The pure part of the client: frames in, list out; and the arithmetic of reconnecting. No I/O, no clock.
 */

const BACKOFF_FIRST = 500;
const BACKOFF_MOST = 20_000;

/** What holds after an action of the host; skip and replay hold nothing. */
const HOLDS = { pause: { paused: true }, resume: { paused: false }, mute: { muted: true }, unmute: { muted: false } };

/**
 * The list of one feed and where it stands, changed by frames only. No I/O: feed it frames in
 * order. `rows` is a new array after every change, newest first; it is never changed in place. So is
 * `drops`, the feed's drops by name, of which there may be none, and `control`, `{paused, muted}`; `totals`, what each
 * period that is counted has, with its leaders, and `goals`, by name.
 */
export class Fold {
  /** `start`: what is already known, `{epoch, seq, capacity?, rows?, drops?, control?, totals?, goals?}`, or nothing. */
  constructor(start) {
    this.epoch = start?.epoch ?? null;
    this.seq = start?.seq ?? 0;
    this.capacity = start?.capacity ?? 100;
    this.rows = start?.rows ?? [];
    this.drops = start?.drops ?? [];
    this.control = start?.control ?? { paused: false, muted: false };
    this.totals = start?.totals ?? {};
    this.goals = start?.goals ?? [];
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
   * and "gap" when this connection can no longer be trusted: connect again from `position`, or
   * without one when that is null.
   */
  take(frame) {
    switch (frame.type) {
      case "snapshot":
        this.rows = frame.rows.slice(0, frame.capacity);
        this.drops = frame.drops ?? [];
        this.control = frame.control ?? { paused: false, muted: false };
        this.totals = frame.totals ?? {};
        this.goals = frame.goals ?? [];
        this.capacity = frame.capacity;
        this.epoch = frame.epoch;
        this.seq = frame.seq;
        this.begun = true;
        return "snapshot";
      case "resumed":
        this.begun = frame.epoch === this.epoch && frame.seq === this.seq;
        return this.begun ? "none" : this.#startOver();
      case "delta":
        return this.begun ? this.#delta(frame) : "gap";
      case "keepalive":
        return this.begun && frame.seq === this.seq ? "none" : "gap";
      default:
        return "none";
    }
  }

  /** This is not the server's list: only a snapshot helps. What is shown stays until it comes. */
  #startOver() {
    this.epoch = null;
    return "gap";
  }

  /** All of it or nothing: a delta with a hole anywhere leaves the list as it was. */
  #delta({ seq, ops }) {
    const whole = ops.every((op, i) => op.seq === this.seq + 1 + i);
    if (!whole || seq !== this.seq + ops.length) return "gap";
    let rows = this.rows.slice();
    let drops = this.drops;
    let control = this.control;
    let totals = this.totals;
    let goals = this.goals;
    for (const op of ops) {
      const id = op.op === "remove" ? op.row : op.row?.row;
      const at = rows.findIndex((row) => row.row === id);
      if (op.op === "add") {
        if (at >= 0) return this.#startOver();
        rows = [op.row, ...rows].slice(0, this.capacity);
      } else if (op.op === "update") {
        if (at < 0) return this.#startOver();
        rows[at] = op.row;
      } else if (op.op === "remove") {
        if (at < 0) return this.#startOver();
        rows.splice(at, 1);
      } else if (op.op === "drop") {
        drops = [...drops.filter((drop) => drop.drop !== op.drop.drop), op.drop];
        drops.sort((a, b) => (a.drop < b.drop ? -1 : 1));
      } else if (op.op === "control") {
        control = { ...control, ...HOLDS[op.action] };
      } else if (op.op === "totals") {
        totals = { ...totals, ...op.totals };
        for (const period in totals) if (totals[period] === null) delete totals[period];
      } else if (op.op === "goal") {
        goals = goals.filter((goal) => goal.goal !== op.goal.goal);
        if (!op.goal.deleted) goals.push(op.goal);
        goals.sort((a, b) => (a.goal < b.goal ? -1 : 1));
      }
      // An op of a later version only counts.
    }
    this.rows = rows;
    this.drops = drops;
    this.control = control;
    this.totals = totals;
    this.goals = goals;
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

/**
 * The address of a feed's WebSocket (`kind` "ws") or event stream ("sse") on the gateway at `base`
 * (http, https, ws or wss; a path in front of /v1 is kept).
 */
export function feedUrl(base, kind, { feed, since, token, without, as }) {
  // By hand: React Native's URL cannot be changed, and has no host.
  const [, secure, home] = /^(?:http|ws)(s?)(:\/\/[^/?#]+[^?#]*?)\/*([?#]|$)/i.exec(base) ?? [];
  if (!home) throw new TypeError(`bad url ${base}`);
  let address = `${kind === "ws" ? kind : "http"}${secure && "s"}${home}/v1/feeds/${encodeURIComponent(feed)}/${kind}`;
  for (const [name, value] of Object.entries({ since, without, as, token })) {
    if (value) address += `${address.includes("?") ? "&" : "?"}${name}=${encodeURIComponent(value)}`;
  }
  return address;
}

/** `epoch:seq` taken apart, or undefined. */
export function parsePosition(text) {
  const parts = /^([A-Za-z0-9_-]{1,32}):([0-9]{1,16})$/.exec(text ?? "");
  return parts ? { epoch: parts[1], seq: Number(parts[2]) } : undefined;
}
