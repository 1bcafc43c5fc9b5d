/** A feed as a store. */

import type { ConnectOptions } from "./client.js";
import type { Feed } from "./watching.js";

export interface FeedStore {
  /** Calls `run` at once and with each change, until the function that comes back is called. */
  subscribe(run: (feed: Feed) => void): () => void;
}

/** `const show = feed({ url, feed: "demo" })`, then `$show.rows`. It connects with the first subscriber and closes with the last. */
export function feed(options: ConnectOptions): FeedStore;
