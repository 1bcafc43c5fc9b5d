/** A feed's list, changed by frames only. Times in fields that end in `at` are RFC 3339 UTC with milliseconds. */

export interface Row {
  /** Its id; never used for another row. */
  row: string;
  /** Grows with every update of the row. */
  rev: number;
  /** The change that added it. */
  seq: number;
  user: { id: string; name: string; avatar?: string };
  gift: { id: string; name: string; icon?: string };
  /** Units, all merged gifts together. */
  count: number;
  /** `amount` in minor units of `currency`. */
  value?: { amount: number; currency: string };
  message?: string;
  /** 0 to 9, how big it is. */
  tier?: number;
  at: string;
  updated_at: string;
  expires_at?: string;
  /** The run of gifts that the row follows; once `end` is true, it changes no more. */
  combo?: { id: string; count: number; end?: boolean };
  /** Of a sale: the drop, and how many were free right after it. */
  drop?: { drop: string; left: number };
  test?: boolean;
  meta?: Record<string, unknown>;
}

/** A limited gift. Always free + held + sold = total. */
export interface Drop {
  drop: string;
  /** "sold_out" means that nothing is free, even while units are held. */
  state: "pending" | "open" | "sold_out" | "closed";
  total: number;
  free: number;
  /** Units of unpaid holds. */
  held: number;
  sold: number;
  gift: { id: string; name: string; icon?: string };
  /** The price of one unit, in minor units. */
  value?: { amount: number; currency: string };
  per_user: number;
  hold_ttl_ms: number;
  max_holds_per_user: number;
  opens_at?: string;
  closes_at?: string;
}

export type Op =
  | { op: "add"; seq: number; row: Row }
  | { op: "update"; seq: number; row: Row }
  | { op: "remove"; seq: number; row: string; reason: "retracted" | "expired" }
  | { op: "drop"; seq: number; drop: Drop }
  | { op: "control"; seq: number; action: Action; row?: string }
  /** The changed periods; null: not counted any more. */
  | { op: "totals"; seq: number; totals: { [P in Period]?: Totals | null } }
  | { op: "goal"; seq: number; goal: Goal | { goal: string; deleted: true } }
  /** In the place of one that was left out (`without`). */
  | { op: "none"; seq: number };

export type Period = "all" | "session" | "day" | "week" | "month";

/** What a period has counted. Integers up to 2^53−1. */
export interface Totals {
  /** When the period began. */
  since: string;
  gifts: number;
  units: number;
  /** Different users. */
  gifters: number;
  points: number;
  /** In minor units. */
  values: { currency: string; amount: number }[];
  /** By "points", "units" or a currency, the highest first. */
  leaders: Record<string, Leader[]>;
}

export interface Leader {
  rank: number;
  user: { id: string; name: string; avatar?: string };
  score: number;
}

export interface Goal {
  goal: string;
  title: string;
  period: Period;
  /** "points", "units" or a currency. */
  by: string;
  target: number;
  value: number;
  /** When it was reached in the present run of its period. */
  reached_at?: string;
}

/** What a host asks overlays to do. */
export type Action = "pause" | "resume" | "skip" | "mute" | "unmute" | "replay";

/** What overlays do with alerts. */
export interface Control {
  /** They wait. */
  paused: boolean;
  /** They make no sound. */
  muted: boolean;
}

/** The server's list at `epoch:seq`, newest first; `rows` is a new array after every change. */
export interface List {
  feed: string;
  epoch: string;
  seq: number;
  capacity: number;
  rows: readonly Row[];
  /** By name; empty when the feed has none. */
  drops: readonly Drop[];
  control: Readonly<Control>;
  /** By period; empty when nothing is counted. */
  totals: Readonly<{ [P in Period]?: Totals }>;
  /** By name; empty when the feed has none. */
  goals: readonly Goal[];
}

/** What led to the list. A version of the gateway later than these types may send ops that are not listed. */
export type Change = { kind: "snapshot"; skipped: number; drops?: Drop[] } | { kind: "delta"; ops: Op[] };

/** A list changed by frames only, without I/O; for clients with a transport of their own. */
export class Fold {
  constructor(start?: { epoch: string; seq: number; capacity?: number; rows?: Row[]; drops?: Drop[] });
  epoch: string | null;
  seq: number;
  capacity: number;
  rows: readonly Row[];
  drops: readonly Drop[];
  begun: boolean;
  control: Control;
  totals: { [P in Period]?: Totals };
  goals: readonly Goal[];
  readonly position: string | null;
  rewind(): void;
  take(frame: object): "snapshot" | "delta" | "none" | "gap";
}

/** Full jitter: between nothing and the ceiling after `failures`, 0.5 s doubling to 20 s. */
export function backoff(failures: number, random?: () => number): number;

/** What a close code asks of a client. */
export function afterClose(code: number): "stop" | "slow" | "again";

/** The address of a feed's WebSocket or event stream on the gateway at `base`. */
export function feedUrl(
  base: string,
  kind: "ws" | "sse",
  options: { feed: string; since?: string | null; token?: string; without?: "totals"; as?: "overlay" },
): string;
