/// <reference lib="dom" />
/** Importing this gives pages the element `<tipcast-ticker>`. */

import type { Change, Drop, List, Row } from "./fold.js";
import type { ConnectOptions, State, StateDetail } from "./client.js";

/** `<tipcast-ticker feed="…" url="…" token="…" max="10" lang="en" theme="dark">` */
export class TipcastTicker extends HTMLElement {
  readonly rows: readonly Row[];
  readonly drops: readonly Drop[];
  readonly position: string | null;
  readonly state: State;
  /** Setting it is `pause()` or `resume()`. */
  paused: boolean;
  /** A viewer's token, or a function that gives one, as of `connect`; while it is not set, the attribute counts. */
  token: ConnectOptions["token"];
  /** The gateway's clock as far as it is known, milliseconds since 1970. */
  serverTime(): number;
  pause(): void;
  resume(): void;
}

/** Attributes of `<tipcast-ticker>` in a page or a template. */
export interface TipcastTickerAttributes {
  feed?: string;
  /** The gateway; needed when the script was bundled. */
  url?: string;
  token?: string;
  /** Rows shown at most. */
  max?: number | string;
  lang?: string;
  theme?: "light" | "dark" | (string & {});
}

declare global {
  interface HTMLElementTagNameMap {
    "tipcast-ticker": TipcastTicker;
  }
  interface HTMLElementEventMap {
    "tipcast-change": CustomEvent<{ list: List; change: Change }>;
    "tipcast-drops": CustomEvent<{ drops: readonly Drop[] }>;
    "tipcast-state": CustomEvent<{ state: State } & StateDetail>;
  }
}
