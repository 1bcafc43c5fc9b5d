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
  /** Has it counted among the feed's overlays, which the host's desk shows. */
  as?: "overlay";
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
  /** How many watch, where the feed's policy shows it to watchers. */
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

/** What `reconnecting` needs of an EventSource. */
export interface EventSourceLike {
  readonly readyState: number;
  addEventListener(name: string, listener: (event: any) => void): void;
  removeEventListener(name: string, listener: (event: any) => void): void;
  close(): void;
}

/** An event of the stream; `data` is a frame as JSON text, and absent where a stream is opened or lost. */
export interface StreamEvent {
  readonly type: string;
  readonly data?: string;
  readonly lastEventId?: string;
}

export type StreamListener = (event: StreamEvent) => void;

export interface ReconnectingOptions {
  /** In place of the global one; for Node, the `EventSource` of the package `eventsource`. */
  EventSource?: new (url: string, options?: { withCredentials?: boolean }) => EventSourceLike;
  withCredentials?: boolean;
}

export interface ReconnectingStream {
  addEventListener(name: string, listener: StreamListener): void;
  removeEventListener(name: string, listener: StreamListener): void;
  /** `epoch:seq` after what was heard last, or "". */
  readonly lastEventId: string;
  /** 0 connecting, also while it waits; 1 open; 2 closed for good. */
  readonly readyState: 0 | 1 | 2;
  close(): void;
}

/**
 * An event stream that comes back from its last position, also after an answer that is not 200, at which a browser's
 * EventSource gives up for ever. `url` may be a function, which is asked for each address anew. It tries until it is closed:
 * an EventSource does not say why it was refused.
 */
export function reconnecting(
  url: string | { toString(): string } | (() => string | Promise<string>),
  options?: ReconnectingOptions,
): ReconnectingStream;
