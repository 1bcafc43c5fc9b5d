/** The connection to one feed. Nothing here needs the types of a browser. */

import type { Change, Control, Drop, List, Row } from "./fold.js";

export * from "./fold.js";

export type State = "connecting" | "live" | "waiting" | "closed";

export interface StateDetail {
  /** Of "live". */
  transport?: "ws" | "sse";
  /** Of "waiting". */
  retryInMs?: number;
  /** Of "closed"; 4000–4099 mean that the gateway refuses, and trying again is of no use. */
  code?: number;
  reason?: string;
}

export interface ConnectOptions {
  feed: string;
  /** The gateway's address; default: where the page came from. */
  url?: string | { toString(): string };
  /** A position `epoch:seq` to resume from. */
  since?: string;
  /** The list that belongs to `since`. */
  rows?: Row[];
  drops?: Drop[];
  control?: Control;
  capacity?: number;
  /** Leaves totals, leaders and goals out of what the gateway sends; `totals` and `goals` of the list stay empty. */
  without?: "totals";
  /**
   * A viewer's token, or a function that gives one. The function is asked before the first connection, when the
   * token is about to end, and once more when it was refused.
   */
  token?: string | ((about: { feed: string }) => string | Promise<string>);
  /** A key of those who moderate, sent in a frame of the socket and never in an address. */
  key?: string;
  /** In place of the global ones; for Node 20, the `WebSocket` of the package `ws`. */
  WebSocket?: new (url: string) => { close(): void };
  EventSource?: new (url: string) => { close(): void };
  onChange?: (list: List, change: Change) => void;
  onState?: (state: State, detail: StateDetail) => void;
  /** How many watch, where the feed's policy says that watchers are told. */
  onPresence?: (watchers: number) => void;
}

export interface Watch {
  /** Ends it; `onState` hears "closed", and nothing comes after that. */
  close(): void;
  /** `epoch:seq`, or null before anything is known. */
  readonly position: string | null;
  readonly rows: readonly Row[];
  readonly drops: readonly Drop[];
  /** When anything was heard last, milliseconds since 1970 by this machine's clock. */
  readonly heardAt: number;
  /** The gateway's clock as far as it is known, milliseconds since 1970. */
  serverTime(): number;
}

/** Watches a feed until `close()`. Throws a TypeError for a name or an address that cannot be one. */
export function connect(options: ConnectOptions): Watch;
