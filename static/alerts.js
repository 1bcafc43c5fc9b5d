/**
 * What an overlay shows: a function of the list, of what it has looked at, and of the clock. Nothing
 * here waits, so a source that was hidden or asleep neither replays nor lags: it asks again.
 * Times are milliseconds; `now` is the clock of this machine, `serverNow` the gateway's.
 */

/**
 * Each new row once, for a while. A host may ask it to wait (new rows are kept, each once, as they are by then),
 * to take what is shown away, and to show a row again.
 */
export class Alerts {
  /** Newest first: `{row, until}`. */
  #entries = [];
  /** Rows that wait for the host to go on; newest first. */
  #held = [];
  #epoch = null;
  /** Rows added at or before this seq have been looked at. */
  #upTo = 0;

  /**
   * `begun` is when this page began, by the gateway's clock (Infinity when that is not known). It
   * separates old from new where seqs cannot: in the first list, and after the numbering began anew.
   */
  constructor({ max, maxAge, hideAfter, begun }) {
    Object.assign(this, { max, maxAge, hideAfter, begun });
  }

  take({ epoch, seq, capacity, rows, control }, change, now, serverNow) {
    const reborn = epoch !== this.#epoch;
    // A feed of epoch 0 was empty when it was looked at: all that comes after is new.
    const unsure = reborn && this.#epoch !== "0";
    if (reborn) this.#upTo = 0;
    const isNew = (row) => {
      const at = Date.parse(row.at);
      return row.seq > this.#upTo && serverNow - at <= this.maxAge && (!unsure || at > this.begun);
    };

    this.#drop(change, rows, capacity, reborn);
    const listed = new Map(rows.map((row) => [row.row, row]));
    const until = this.hideAfter ? now + this.hideAfter : Infinity;
    for (const entry of this.#entries) {
      const row = listed.get(entry.row.row);
      if (row && row.rev !== entry.row.rev) Object.assign(entry, { row, until });
    }
    this.#held = this.#held.map((row) => listed.get(row.row) ?? row);
    this.#held.unshift(...rows.filter(isNew));
    for (const op of change.ops ?? []) if (op.op === "control") this.#obey(op, listed);
    this.#held.length = Math.min(this.#held.length, this.max);
    if (!control?.paused) {
      this.#entries.unshift(...this.#held.map((row) => ({ row, until })));
      this.#held = [];
    }
    this.#entries.length = Math.min(this.#entries.length, this.max);
    this.#epoch = epoch;
    this.#upTo = seq;
  }

  /** What the host says happens once, as it comes; what holds (pause) is in the list. */
  #obey({ action, row }, listed) {
    if (action === "skip") {
      const gone = row ?? this.#entries[0]?.row.row;
      this.#entries = this.#entries.filter((entry) => entry.row.row !== gone);
    }
    if (action !== "replay" || !listed.has(row)) return;
    this.#entries = this.#entries.filter((entry) => entry.row.row !== row);
    this.#held = [listed.get(row), ...this.#held.filter((held) => held.row !== row)];
  }

  /** Taken back is gone at once. Pushed out by newer rows is no reason to leave early. */
  #drop(change, rows, capacity, reborn) {
    if (change.kind === "delta") {
      const gone = new Set(change.ops.filter((op) => op.op === "remove").map((op) => op.row));
      this.#entries = this.#entries.filter(({ row }) => !gone.has(row.row));
      this.#held = this.#held.filter((row) => !gone.has(row.row));
      return;
    }
    const listed = new Set(rows.map((row) => row.row));
    const oldest = rows.length >= capacity ? rows[rows.length - 1].seq : 0;
    const stays = ({ row }) => listed.has(row.row) || (!reborn && row.seq < oldest);
    this.#entries = this.#entries.filter(stays);
    this.#held = this.#held.filter((row) => stays({ row }));
  }

  shown(now) {
    this.#entries = this.#entries.filter(({ until }) => until > now);
    return this.#entries.map(({ row }) => row);
  }

  /** When `shown` next gives something else by itself, or Infinity. */
  next(now) {
    return Math.min(Infinity, ...this.#entries.map(({ until }) => until).filter((until) => until > now));
  }
}

/** The list as it stands; with `hideAfter`, only what changed lately. */
export class Standing {
  #rows = [];
  #ahead = 0;

  constructor({ max, hideAfter }) {
    Object.assign(this, { max, hideAfter });
  }

  take({ rows }, _change, now, serverNow) {
    this.#rows = rows.slice(0, this.max);
    this.#ahead = serverNow - now;
  }

  shown(now) {
    return this.#rows.filter((row) => this.#until(row) > now);
  }

  next(now) {
    return Math.min(Infinity, ...this.#rows.map((row) => this.#until(row)).filter((until) => until > now));
  }

  #until(row) {
    return this.hideAfter ? Date.parse(row.updated_at) - this.#ahead + this.hideAfter : Infinity;
  }
}
