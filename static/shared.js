/**
 * One connection for all on a page who show the same feed of the same gateway with the same token: a ticker, leaders,
 * goals and totals are one watcher. Nobody there who shows what is counted, and it is not sent.
 */

import { connect } from "./connect.js";

/** What is followed now. */
const followed = [];

class Shared {
  #followers = new Set();
  #connection;
  /** What is heard now; anything of an earlier connection is not. */
  #life;
  #state = ["connecting", {}];
  #list = null;

  constructor(what, totals) {
    this.what = what;
    this.#open(totals);
  }

  #open(totals) {
    const life = (this.#life = {});
    this.totals = totals;
    const heard = (take) => (...told) => this.#life === life && take(...told);
    this.#connection?.close();
    this.#connection = connect({
      ...this.what,
      without: totals ? undefined : "totals",
      onChange: heard((list, change) => {
        this.#list = list;
        this.#tell("onChange", list, change);
      }),
      onState: heard((state, detail) => {
        this.#state = [state, detail];
        // This connection has ended: a later caller begins a new one.
        if (state === "closed") this.#forget();
        this.#tell("onState", state, detail);
      }),
    });
  }

  #tell(what, ...told) {
    for (const follower of [...this.#followers]) call(follower, what, told);
  }

  #forget() {
    const at = followed.indexOf(this);
    if (at >= 0) followed.splice(at, 1);
  }

  join(follower, totals) {
    this.#followers.add(follower);
    // The list so far has none of what was left out.
    if (totals && !this.totals) this.#open(true);
    // After who follows has what this gives back, and before anything else is heard.
    queueMicrotask(() => {
      if (!this.#followers.has(follower)) return;
      call(follower, "onState", this.#state);
      const list = this.#list;
      if (list) call(follower, "onChange", [list, { kind: "snapshot", skipped: 0, drops: list.drops }]);
    });
    const shared = this;
    return {
      close: () => shared.#leave(follower),
      serverTime: () => shared.#connection.serverTime(),
      get position() {
        return shared.#connection.position;
      },
    };
  }

  #leave(follower) {
    if (!this.#followers.delete(follower) || this.#followers.size > 0) return;
    this.#forget();
    this.#life = null;
    this.#connection.close();
  }
}

// A follower's fault is its own.
function call(follower, what, told) {
  try {
    follower[what]?.(...told);
  } catch (error) {
    (globalThis.reportError ?? console.error)(error);
  }
}

/**
 * Follows `feed` of the gateway at `url` until `close()` of what it gives back, which also has `position` and
 * `serverTime()`. `totals`: whether totals, leaders and goals are wanted. `onChange` and `onState` are as those of
 * `connect`; a list that is there already comes at once, as a snapshot.
 */
export function follow({ url, feed, token, as, totals = false }, { onChange, onState }) {
  const what = { url, feed, token, as };
  let shared = followed.find((known) => Object.keys(what).every((name) => known.what[name] === what[name]));
  if (!shared) {
    shared = new Shared(what, totals);
    followed.push(shared);
  }
  return shared.join({ onChange, onState }, totals);
}
