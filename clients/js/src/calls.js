// One request and its answer: retried while the gateway does not answer or asks to come again.

import { Problem, Unavailable, known } from "./problems.js";

/** Ceilings of the pauses between tries, in milliseconds: the first, and the most. */
const FIRST = 250;
const MOST = 10_000;

/** Answers that say to come again. */
const AGAIN = new Set([408, 425, 429, 500, 502, 503, 504]);

/** Waits, unless `signal` ends it. */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const end = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}

/** The path of a feed's API: `path`show/${feed}`` with every part percent-encoded. */
export function path(texts, ...parts) {
  return texts.reduce((all, text, n) => `${all}${encodeURIComponent(parts[n - 1])}${text}`);
}

/** A query of what is defined, with its `?`. */
export function query(fields) {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return given.length ? `?${given.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}` : "";
}

export class Calls {
  #base;
  #headers;
  #options;

  constructor(url, options = {}) {
    known(options, ["key", "patience", "timeout", "fetch"], "Tipcast");
    const { key, patience = 60_000, timeout = 10_000, fetch = globalThis.fetch } = options;
    if (!/^https?:\/\//.test(url)) throw new TypeError(`"${url}" is no address of a gateway; it begins with https:// or http://`);
    if (typeof fetch !== "function") throw new TypeError("there is no fetch here: use Node 20 or newer, or give one");
    this.#base = `${String(url).replace(/\/+$/, "")}/v1`;
    this.#headers = key ? { authorization: `Bearer ${key}` } : {};
    this.#options = { patience, timeout, fetch };
  }

  /**
   * One request below `/v1`, retried with the same body for at most `patience`. Answers its JSON. `more.timeout` is how
   * long one try may take, `more.signal` ends the whole.
   */
  async call(method, where, body, { timeout, signal } = {}) {
    const { patience, timeout: usual, fetch } = this.#options;
    const until = Date.now() + patience;
    for (let tries = 1; ; tries += 1) {
      let why;
      let wait = 0;
      const within = AbortSignal.timeout(timeout ?? usual);
      try {
        const answer = await fetch(this.#base + where, {
          method, headers: body === undefined ? this.#headers : { ...this.#headers, "content-type": "application/json" },
          body: body === undefined ? undefined : JSON.stringify(body), redirect: "manual",
          signal: signal ? AbortSignal.any([signal, within]) : within,
        });
        const text = await answer.text();
        if (answer.ok) return object(answer, text, where);
        if (!AGAIN.has(answer.status)) throw new Problem(answer.status, object(answer, text, where));
        why = `${answer.status} ${text.slice(0, 200)}`;
        wait = 1_000 * (Number(answer.headers.get("retry-after")) || 0);
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof Problem) throw error;
        why = within.aborted ? `no answer within ${timeout ?? usual} ms` : `${error.message}${error.cause ? ` (${error.cause.message || error.cause.code})` : ""}`;
      }
      wait += Math.random() * Math.min(MOST, FIRST * 2 ** (tries - 1));
      if (Date.now() + wait > until) throw new Unavailable(`${method} ${this.#base}${where}: ${why} (${tries} tries)`);
      await pause(wait, signal);
    }
  }
}

/** The JSON of an answer; anything else is not from a gateway. */
function object(answer, text, where) {
  if (answer.status === 204) return undefined;
  try {
    const body = JSON.parse(text);
    if (body !== null && typeof body === "object") return body;
  } catch {
    // Judged below.
  }
  const type = answer.headers.get("content-type") ?? "no type";
  const detail = `what answered at ${where} is no Tipcast gateway, it seems: ${answer.status}, ${type}; is the address right?`;
  if (answer.ok || answer.status < 400) throw new Problem(answer.status, { detail });
  return { detail };
}
