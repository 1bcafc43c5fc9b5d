/// <reference lib="dom" />
/** Importing this gives pages `<tipcast-leaders>`, `<tipcast-goal>` and `<tipcast-total>`. */

import type { ConnectOptions } from "./client.js";
import type { Period } from "./fold.js";

/** Attributes that all three take in a page or a template. */
export interface TipcastBoardAttributes {
  feed?: string;
  /** The gateway; needed when the script was bundled. */
  url?: string;
  /** A viewer's token. */
  token?: string;
  /** Stands above it; of a goal in the place of its title. */
  heading?: string;
  lang?: string;
  theme?: "light" | "dark" | (string & {});
}

export interface TipcastLeadersAttributes extends TipcastBoardAttributes {
  /** Default: session. */
  period?: Period;
  /** "points", "units" or a currency; default: the feed's first. */
  by?: string;
  /** 1 to 10; default: 5. */
  max?: number | string;
}

export interface TipcastGoalAttributes extends TipcastBoardAttributes {
  /** The goal's name. The element hides itself while there is none of it. */
  goal?: string;
}

export interface TipcastTotalAttributes extends TipcastBoardAttributes {
  /** Default: session. */
  period?: Period;
  /** "points" (the default), "units", "gifts", "gifters" or a currency. */
  by?: string;
}

/** Each attribute is a property too, which can be set: a framework may use either. */
declare class TipcastBoard extends HTMLElement {
  feed: string | undefined;
  url: string | undefined;
  theme: string | undefined;
  heading: string | undefined;
  /** A viewer's token, or a function that gives one, as of `connect`; while it is not set, the attribute counts. */
  token: ConnectOptions["token"];
}

/** `<tipcast-leaders feed="…" period="session" by="points" max="5">` */
export class TipcastLeaders extends TipcastBoard {
  period: string | undefined;
  by: string | undefined;
  get max(): string | undefined;
  set max(max: number | string | undefined);
}
/** `<tipcast-goal feed="…" goal="…">` */
export class TipcastGoal extends TipcastBoard {
  goal: string | undefined;
}
/** `<tipcast-total feed="…" period="session" by="EUR">` */
export class TipcastTotal extends TipcastBoard {
  period: string | undefined;
  by: string | undefined;
}

declare global {
  interface HTMLElementTagNameMap {
    "tipcast-leaders": TipcastLeaders;
    "tipcast-goal": TipcastGoal;
    "tipcast-total": TipcastTotal;
  }
}
