// Entries of a ledger, handed to a program at least once, through outages of the gateway and of the program's own database.

import { pause } from "./calls.js";
import { Problem, Unavailable, known } from "./problems.js";

/** How long a claim waits for entries, in milliseconds. */
const WAIT = 20_000;

/** After this many failures in a row it is no single entry's fault: they are claimed one by one. */
const ALL_FAIL = 3;

const OPTIONS = ["consumer", "max", "lease_ms", "signal", "log"];

export class Consumer {
  #tipcast;
  #feed;
  #group;
  #handlers;
  #options;
  /** Entries that failed: when each is given back. */
  #later = [];
  /** How many have failed since one was handled. */
  #failures = 0;
  #claimed = false;

  constructor(tipcast, feed, group, handle, options = {}) {
    known(options, OPTIONS, "consume");
    const consumer = options.consumer ?? `node-${crypto.randomUUID().slice(0, 12)}`;
    this.#tipcast = tipcast;
    this.#feed = feed;
    this.#group = group;
    this.#handlers = typeof handle === "function" ? { "*": handle } : handle;
    this.#options = { max: 128, lease_ms: 30_000, log: console, ...options, consumer };
  }

  async run() {
    const { signal } = this.#options;
    try {
      while (!signal?.aborted) await this.#turn();
    } catch (error) {
      if (!signal?.aborted) throw error;
    } finally {
      // Leases would run out by themselves; others need not wait for that.
      await this.#settle([], this.#later.map(({ cursor }) => cursor));
    }
  }

  async #turn() {
    const { max, lease_ms, signal } = this.#options;
    const now = Date.now();
    const due = this.#later.filter(({ at }) => at <= now);
    this.#later = this.#later.filter(({ at }) => at > now);
    await this.#settle([], due.map(({ cursor }) => cursor));
    const wait_ms = Math.max(0, Math.min(WAIT, ...this.#later.map(({ at }) => at - now)));
    const entries = await this.#claim({ max: this.#failures ? 1 : max, lease_ms, wait_ms });
    const done = [];
    let tried = 0;
    for (const entry of entries) {
      if (signal?.aborted || (this.#failures >= ALL_FAIL && tried)) break;
      tried += 1;
      if (await this.#handle(entry)) {
        this.#failures = 0;
        done.push(entry.cursor);
      } else {
        this.#failures += 1;
        this.#later.push({ at: Date.now() + Math.min(1_000 * 2 ** ((entry.attempt ?? 1) - 1), lease_ms / 2), cursor: entry.cursor });
      }
    }
    await this.#settle(done, entries.slice(tried).map(({ cursor }) => cursor));
    if (this.#failures) await pause(Math.min(60_000, 500 * 2 ** Math.min(this.#failures, 10)) * (0.5 + Math.random() / 2), signal);
  }

  /** Whether the entry is done with. */
  async #handle(entry) {
    const { log } = this.#options;
    const handle = (Object.hasOwn(this.#handlers, entry.type) ? this.#handlers[entry.type] : undefined) ?? this.#handlers["*"];
    if (!handle) {
      log.info(`tipcast: nothing is done about ${entry.event_id} (${entry.type})`);
      return true;
    }
    try {
      await handle(entry);
      return true;
    } catch (error) {
      log.error(`tipcast: ${entry.event_id} (${entry.type}) failed, attempt ${entry.attempt ?? 1}; it comes again`, error);
      return false;
    }
  }

  /** Claims until there is an answer, through outages of any length; once one was there, through refusals too. */
  async #claim(how) {
    const { consumer, signal, log } = this.#options;
    for (;;) {
      try {
        const entries = await this.#tipcast.claim(this.#feed, this.#group, consumer, { ...how, signal });
        this.#claimed = true;
        return entries;
      } catch (error) {
        if (!(error instanceof Unavailable) && !(error instanceof Problem && this.#claimed)) throw error;
        log.warn(`tipcast: no entries of ${this.#feed}/${this.#group}, trying again: ${error.message}`);
        if (error instanceof Problem) await pause(5_000 + Math.random() * 5_000, signal);
      }
    }
  }

  /** Acknowledges and gives back. Where nobody answers, the leases run out and the entries come again. */
  async #settle(done, rest) {
    try {
      if (done.length) await this.#tipcast.ack(this.#feed, this.#group, done);
      if (rest.length) await this.#tipcast.nack(this.#feed, this.#group, rest);
    } catch (error) {
      if (!(error instanceof Unavailable || error instanceof Problem)) throw error;
      this.#options.log.warn(`tipcast: ${done.length} entries of ${this.#feed}/${this.#group} will come again, their acknowledgement failed: ${error.message}`);
    }
  }
}
