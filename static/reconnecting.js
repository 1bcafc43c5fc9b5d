/**
 * An event stream that comes back. A browser's EventSource goes on by itself after a lost connection, and gives up for ever at
 * an answer that is not 200, which a proxy sends while the gateway behind it restarts. This opens another one then, from the
 * last position, after a pause of full jitter that grows until something is heard.
 *
 *     const events = reconnecting("https://gateway.example/v1/feeds/demo/sse");
 *     events.addEventListener("snapshot", ({ data }) => show(JSON.parse(data)));
 *     events.addEventListener("delta", ({ data }) => change(JSON.parse(data)));
 *     events.close();
 *
 * For who only wants frames; `connect` also folds them into a list, and hears why it was refused.
 */

import { backoff } from "./fold.js";

const CLOSED = 2;

/** Frames that say where the stream stands. */
const POSITIONED = ["snapshot", "resumed", "delta", "keepalive"];

/** `url`: an address, or a function that gives one, asked each time anew, for a token that ends. */
export function reconnecting(url, { EventSource = globalThis.EventSource, withCredentials = false } = {}) {
  if (!EventSource) {
    throw new Error("there is no EventSource here: install the package eventsource and give its EventSource as an option");
  }
  const listeners = [];
  let source = null;
  let timer;
  let position = "";
  let failures = 0;
  let over = false;

  const heard = ({ lastEventId }) => {
    if (lastEventId) position = lastEventId;
    failures = 0;
  };
  const lost = () => {
    // While it is connecting the browser comes back by itself, when the gateway's goodbye asked for it.
    if (over || source.readyState !== CLOSED) return;
    timer = setTimeout(open, backoff(failures));
    failures += 1;
  };
  async function open() {
    let address;
    try {
      address = new URL(typeof url === "function" ? await url() : url, globalThis.location?.href);
    } catch (error) {
      // Nobody gave an address, for now; a wrong one was refused below.
      if (typeof url !== "function") throw error;
      timer = setTimeout(open, backoff(failures));
      failures += 1;
      return;
    }
    if (over) return;
    if (position) address.searchParams.set("since", position);
    source = new EventSource(address.href, { withCredentials });
    for (const name of POSITIONED) source.addEventListener(name, heard);
    for (const [name, listener] of listeners) source.addEventListener(name, listener);
    source.addEventListener("error", lost);
  }

  if (typeof url !== "function") new URL(url, globalThis.location?.href);
  open();
  return {
    addEventListener(name, listener) {
      listeners.push([name, listener]);
      source?.addEventListener(name, listener);
    },
    removeEventListener(name, listener) {
      const at = listeners.findIndex(([known, it]) => known === name && it === listener);
      if (at >= 0) listeners.splice(at, 1);
      source?.removeEventListener(name, listener);
    },
    /** `epoch:seq` after what was heard last, or "". */
    get lastEventId() {
      return position;
    },
    /** As of an EventSource: 0 connecting (also while it waits), 1 open, 2 closed for good. */
    get readyState() {
      if (over) return CLOSED;
      return source?.readyState === 1 ? 1 : 0;
    },
    close() {
      over = true;
      clearTimeout(timer);
      source?.close();
    },
  };
}
