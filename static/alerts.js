/**
 * What an overlay shows: a function of the list, of what it has looked at, and of the clock. Nothing
 * here waits, so a source that was hidden or asleep neither replays nor lags: it asks again.
 * Times are milliseconds; `now` is the clock of this machine, `serverNow` the gateway's.
 */

/** Each new row once, for a while. */
export class Alerts {
  /** Newest first: `{row, until}`. */
  #entries = [];
  #epoch = null;
  /** Rows added at or before this seq have been looked at. */
  #upTo = 0;

  /**
   * `begun` is when this page began, by the gateway's clock (Infinity when that is not known). It
   * tells old from new where seqs cannot: in the first list, and after the numbering began anew.
   */
  constructor({ max, maxAge, hideAfter, begun }) {
    Object.assign(this, { max, maxAge, hideAfter, begun });
  }

  take({ epoch, seq, capacity, rows }, change, now, serverNow) {
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
    this.#entries.unshift(...rows.filter(isNew).map((row) => ({ row, until })));
    this.#entries.length = Math.min(this.#entries.length, this.max);
    this.#epoch = epoch;
    this.#upTo = seq;
  }

  /** Taken back is gone at once. Pushed out by newer rows is no reason to leave early. */
  #drop(change, rows, capacity, reborn) {
    if (change.kind === "delta") {
      const gone = new Set(change.ops.filter((op) => op.op === "remove").map((op) => op.row));
      this.#entries = this.#entries.filter(({ row }) => !gone.has(row.row));
      return;
    }
    const listed = new Set(rows.map((row) => row.row));
    const oldest = rows.length >= capacity ? rows[rows.length - 1].seq : 0;
    const stays = ({ row }) => listed.has(row.row) || (!reborn && row.seq < oldest);
    this.#entries = this.#entries.filter(stays);
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
