/**
 * A gateway, asked by a backend: Node 20, Bun, Deno. Every call is retried with the same id for at most `patience`; what is
 * refused throws a `Problem`, and what is not answered an `Unavailable`. Nothing is kept outside of an object.
 */

export interface User { id: string; name: string; avatar?: string; anonymous?: boolean }
export interface GiftKind { id: string; name: string; icon?: string }
/** `amount` in minor units of `currency`. */
export interface Money { amount: number; currency: string }

/** A gift as a producer sends it. Without `id` one is made, so that a retry is not a second gift. */
export interface Gift {
  id?: string;
  user: User;
  gift: GiftKind;
  count?: number;
  value?: Money;
  combo?: { id: string; count: number; end?: boolean };
  message?: string;
  tier?: number;
  occurred_at?: string;
  /** One of the two shows it later. */
  deliver_at?: string;
  delay_ms?: number;
  test?: boolean;
  meta?: Record<string, unknown>;
}

export type GiftStatus = "accepted" | "merged" | "suppressed" | "scheduled" | "in_review";

/** What became of a gift. With `duplicate` the same id had come before: this is the first answer again. */
export interface Posted {
  id: string;
  status: GiftStatus;
  epoch?: string;
  seq?: number;
  row?: string;
  count?: number;
  deliver_at?: string;
  duplicate?: true;
}

/** One result of many, in their order: what became of it, or why it was refused. */
export type BatchResult = { index: number } & (Posted | { id?: string; error: ProblemBody });

/** Units of a drop that somebody wants: sold at once, or held until they are paid. Without `id` one is made. */
export interface Claim { id?: string; user: User; pay: "now" | "later"; count?: number; message?: string }
export interface Sale { id: string; status: string; count: number; hold?: string; expires_at?: string; value?: Money; row?: string; [more: string]: unknown }

export interface Delta { count: number; value?: Money }

/** What every entry has. `event_id` is the key to know a repeat by. */
interface About<Type extends string> { cursor: string; event_id: string; type: Type; feed: string; at: string; attempt?: number; seq?: number; row?: string; test?: true }
/** A gift as it was accepted. */
export type Accepted = Gift & { id: string };
/** Enough to find the gift. */
export type Known = Partial<Accepted> & { id: string };

export type GiftAccepted = About<"gift.accepted"> & { gift: Accepted; delta: Delta };
export type GiftMerged = About<"gift.merged"> & { gift: Accepted; delta: Delta };
export type GiftSuppressed = About<"gift.suppressed"> & { gift: Accepted; delta: Delta };
export type GiftDenied = About<"gift.denied"> & { gift: Accepted; delta: Delta; reason?: string };
export type GiftRetracted = About<"gift.retracted"> & { gift: Known; delta: Delta; reason?: string; drop?: string };
export type GiftRefunded = About<"gift.refunded"> & { gift: Known; delta: Delta; reason?: string; drop?: string };
export type DropSold = About<"drop.sold"> & { gift: Accepted; delta: Delta; drop: string; hold?: string };
export type GoalReached = About<"goal.reached"> & { goal: Goal };
export type PersonErased = About<"person.erased"> & { person: { user: string } };
/** Entries were cut before this reader acknowledged them: read them again from a backup of yours, or know that they are gone. */
export type LedgerLost = About<"ledger.lost"> & { lost: { from: string; to: string; count: number } };

/** The types that there are today; new ones may come at any time, and go to `"*"`. */
export type Entry = GiftAccepted | GiftMerged | GiftSuppressed | GiftDenied | GiftRetracted | GiftRefunded | DropSold | GoalReached | PersonErased | LedgerLost;
/** An entry of any type, also one that is not known here. */
export interface AnyEntry extends About<string> { gift?: Known; delta?: Delta; reason?: string; drop?: string; hold?: string; goal?: Goal; lost?: LedgerLost["lost"]; [more: string]: unknown }

/** Functions by type. A type without one, and without `"*"`, is logged and acknowledged. */
export type Handlers = { [Type in Entry["type"]]?: (entry: Extract<Entry, { type: Type }>) => unknown } & { "*"?: (entry: AnyEntry) => unknown };

export interface ConsumeOptions {
  /** Which of the group's programs this is; made up when absent. */
  consumer?: string;
  /** Entries of one claim, 1 to 1 000 (128). */
  max?: number;
  /** After how long without an acknowledgement an entry goes to another, in milliseconds (30 000). */
  lease_ms?: number;
  /** Ends it: the entry at hand is finished, the rest is given back. */
  signal?: AbortSignal;
  /** Takes what is logged (`console`). */
  log?: Pick<Console, "info" | "warn" | "error">;
}

export interface GoalSpec { title: string; by: string; period: string; target: number }
export interface Goal extends GoalSpec { goal: string; value: number; reached_at?: string }
export interface DropSpec { total: number; gift: GiftKind; value?: Money; per_user?: number; max_holds_per_user?: number; hold_ttl_ms?: number; opens_at?: string; closes_at?: string }
export interface Drop extends DropSpec { drop: string; state: "pending" | "open" | "sold_out" | "closed"; free: number; held: number; sold: number }
export interface Group { group: string; lag: number; pending: number; oldest_ms: number; dead: number; lost: number }
export interface WebhookSpec { url: string; secret: string; batch_max?: number; batch_ms?: number; max_age_ms?: number; delivery?: "at_least_once" | "best_effort"; types?: string[]; headers?: Record<string, string> }
export interface Summary { from: string; to: string; first?: string; last?: string; entries: number; types: Record<string, number>; count: number; values: Money[] }
export interface LedgerFilter { after?: string; limit?: number; from?: string; to?: string; type?: string; user?: string }
export type Answer = Record<string, any>;

export interface TipcastOptions {
  /** A key, `tck_…`. */
  key?: string;
  /** For how long one call is retried, in milliseconds (60 000). */
  patience?: number;
  /** How long one try may take, in milliseconds (10 000). */
  timeout?: number;
  /** In place of the global one: another transport, or one that is watched. */
  fetch?: typeof globalThis.fetch;
}

export class Tipcast {
  /** Throws a TypeError for what cannot be an address, and for an option that does not exist. */
  constructor(url: string, options?: TipcastOptions);

  /** One request below `/v1`, for what has no method here. */
  call(method: string, path: string, body?: unknown, more?: { timeout?: number; signal?: AbortSignal }): Promise<any>;

  /** Sends one gift, once, however often it has to be sent. An error has its `id`, also one that was made here. */
  post(feed: string, gift: Gift): Promise<Posted>;
  /** Sends many, in batches of 128. An error has the `ids` of all of them, those of batches that went well too. */
  postAll(feed: string, gifts: Iterable<Gift>): Promise<BatchResult[]>;
  /** What became of a gift: each of its entries, and how each reader stands. */
  story(feed: string, gift: string): Promise<Answer>;
  /** Gifts that wait to be shown. */
  scheduled(feed: string): AsyncGenerator<{ id: string; deliver_at: string; gift: Accepted }>;
  /** Cancels a scheduled gift. A `Problem` with status 409 when it was shown already. */
  cancel(feed: string, gift: string): Promise<void>;
  /** Takes a row back everywhere. */
  retract(feed: string, row: string): Promise<void>;
  /** Takes one gift back by its id. */
  retractGift(feed: string, gift: string, reason?: string): Promise<Answer>;
  /** Takes a part of a gift's value back. `refunded` is all that is refunded so far, in minor units: a repeat changes nothing. */
  refund(feed: string, gift: string, refunded: number, reason?: string): Promise<Answer>;

  drops(feed: string): Promise<Drop[]>;
  drop(feed: string, drop: string): Promise<Drop>;
  putDrop(feed: string, drop: string, spec: DropSpec): Promise<Drop>;
  /** Claims units of a drop: sold at once with `pay: "now"`, held with `"later"`. An error has the claim's `id`. */
  sell(feed: string, drop: string, claim: Claim): Promise<Sale>;
  sale(feed: string, drop: string, claim: string): Promise<Sale>;
  refundSale(feed: string, drop: string, claim: string, refunded: number, reason?: string): Promise<Answer>;
  retractSale(feed: string, drop: string, claim: string, reason?: string): Promise<Answer>;
  /** What a user holds and has not paid. */
  holds(feed: string, user: string): Promise<Answer[]>;
  /** A hold was paid: its gift is shown. */
  confirm(feed: string, hold: string): Promise<Sale>;
  /** Cancels a hold: its units are free again. */
  release(feed: string, hold: string): Promise<void>;

  /** Takes entries, at most `max`, waiting `wait_ms` for the first. The first claim of a group makes it. */
  claim(feed: string, group: string, consumer: string, how?: { max?: number; wait_ms?: number; lease_ms?: number; from?: "start" | "now"; signal?: AbortSignal }): Promise<Entry[]>;
  /** How many of them this group had pending. */
  ack(feed: string, group: string, cursors: string[]): Promise<number>;
  /** Gives them to the next claimer. */
  nack(feed: string, group: string, cursors: string[]): Promise<number>;
  /** Moves a group; answers the cursor of the entry that is next. */
  seek(feed: string, group: string, to: { to: "start" | "now" } | { cursor: string } | { at: string }): Promise<string>;
  group(feed: string, group: string): Promise<Omit<Group, "group">>;
  groups(feed: string): Promise<Group[]>;
  deleteGroup(feed: string, group: string): Promise<void>;
  deadLetters(feed: string, group: string): Promise<Answer[]>;
  /** Hands dead letters out again, all or those with these ids; how many. */
  replay(feed: string, group: string, ids?: string[]): Promise<number>;

  /**
   * Hands every entry to `handle`, at least once, until `signal` ends it: one function, or functions by type.
   *
   * What a function returned from, or its promise was kept, is acknowledged. An entry whose function throws is logged, given
   * back alone after a pause that grows with its attempts, and comes again; its neighbours go on. Where nothing works any
   * more, because your database is away, entries are claimed one by one with growing pauses, up to a minute. After its 16th
   * attempt the gateway makes an entry a dead letter. Outages of the gateway are waited out. It rejects only where the first
   * claim is refused.
   *
   * An entry may come twice (a function took longer than `lease_ms`, an acknowledgement was lost): know it by its `event_id`,
   * as `EventStore` does.
   */
  consume(feed: string, group: string, handle: ((entry: Entry) => unknown) | Handlers, options?: ConsumeOptions): Promise<void>;

  /** Every entry that the filter lets through, oldest first. Reads and changes nothing. */
  ledger(feed: string, filter?: LedgerFilter): AsyncGenerator<Entry>;
  /** What the deltas of a feed's ledger add up to. */
  summary(feed: string, between?: { from?: string; to?: string }): Promise<Summary>;

  putWebhook(feed: string, webhook: string, spec: WebhookSpec): Promise<Answer>;
  webhook(feed: string, webhook: string): Promise<Answer>;
  webhooks(feed: string): Promise<Answer[]>;
  deleteWebhook(feed: string, webhook: string): Promise<void>;

  /** The list as it is now. */
  feed(feed: string): Promise<Answer>;
  /** Every feed that the key covers, by name. */
  feeds(prefix?: string): AsyncGenerator<Answer>;
  policy(feed: string): Promise<Answer>;
  patchPolicy(feed: string, changes: Answer): Promise<Answer>;
  putPolicy(feed: string, policy: Answer): Promise<Answer>;
  /** Begins a session: what is counted by session starts at zero. */
  session(feed: string, id?: string): Promise<Answer>;
  /** Gifts that wait for a decision. */
  review(feed: string): Promise<Array<{ id: string; at: string; expires_at: string; gift: Accepted }>>;
  decide(feed: string, gift: string, action: "approve" | "mask" | "deny"): Promise<Answer>;
  blocks(feed: string): Promise<Array<{ user: string; at: string; until?: string }>>;
  /** Keeps a user's gifts from being shown; with `retract`, what is shown goes too. */
  block(feed: string, user: string, how?: { until?: string; retract?: boolean }): Promise<Answer>;
  unblock(feed: string, user: string): Promise<void>;
  /** Takes all rows of a user back. */
  retractUser(feed: string, user: string): Promise<Answer>;
  control(feed: string, action: "pause" | "resume" | "skip" | "mute" | "unmute" | "replay", row?: string): Promise<void>;
  goals(feed: string): Promise<Goal[]>;
  goal(feed: string, goal: string): Promise<Goal>;
  putGoal(feed: string, goal: string, spec: GoalSpec): Promise<Goal>;
  deleteGoal(feed: string, goal: string): Promise<void>;
  /** `back`: 1 for the run before the current one. */
  totals(feed: string, back?: number): Promise<Answer>;
  leaders(feed: string, how?: { period?: string; by?: string; back?: number; limit?: number; user?: string }): Promise<Answer>;
  presence(feed: string): Promise<{ watchers: number; overlays: number; nodes: number }>;
  /** Refuses a viewer's tokens that were made before now, or before a time. */
  revoke(viewer: string, before?: string): Promise<void>;
}

export interface ProblemBody { type?: string; title?: string; status?: number; detail?: string; errors?: Array<{ pointer: string; detail: string }>; [more: string]: unknown }

declare class Failed extends Error {
  /** The ids of the gifts that were sent, in their order. Send each again with its id: nothing is taken twice. */
  ids: string[];
  /** The id of the gift or claim that was sent, where it was one. */
  readonly id?: string;
}

/** A refusal (RFC 9457). Sending the same again is of no use. */
export class Problem extends Failed {
  readonly status: number;
  /** What kind of problem it is, such as `/problems/sold-out`. */
  readonly type: string;
  readonly title: string;
  readonly detail: string;
  readonly errors: Array<{ pointer: string; detail: string }>;
  readonly body: ProblemBody;
}

/** No answer after the last retry. Nothing is half-written: the same call, with the same ids, is safe later. */
export class Unavailable extends Failed {}

/** Not from this gateway, or too old: answer 401 and do nothing. */
export class BadSignature extends Error {}

/** The body of a delivery. */
export interface Delivery { type: "entries"; feed: string; batch: string; entries: Entry[]; test?: true }

/**
 * Reads deliveries of a webhook. Give it every secret that may be in use, during a change the old one too. `tolerance` is how
 * far a timestamp may be away, in milliseconds (300 000).
 */
export class Webhook {
  constructor(secrets: string | string[], options?: { tolerance?: number });
  /**
   * The delivery in a request: `headers` of any shape, `body` as it came, before anything parsed it. Throws `BadSignature`.
   * One with `test` is an operator's trial: its entries are samples that nobody paid for, and are left out.
   */
  read(headers: Headers | Record<string, string | string[] | undefined>, body: Uint8Array | string, now?: number): Delivery;
}

/** What it needs of `node:sqlite`'s DatabaseSync and of `better-sqlite3`. */
export interface SqliteDatabase { exec(sql: string): unknown; prepare(sql: string): { run(...parameters: any[]): { changes: number | bigint } } }
/** What it needs of a Client of `pg`. */
export interface PostgresClient { query(sql: string, parameters?: any[]): Promise<{ rowCount: number | null; rows: any[] }> }
/** What it needs of a Pool of `pg`. */
export interface PostgresPool { query(sql: string): Promise<unknown>; connect(): Promise<any>; readonly totalCount: number }

/**
 * Knows which entries were handled before, in a table beside your own data:
 *
 *     const store = new EventStore(new DatabaseSync("game.db"));
 *     await store.create();
 *     await tipcast.consume("demo", "game", (entry) => store.once(entry, (db) => {
 *       db.prepare("UPDATE accounts SET …").run(…);
 *     }));
 *
 * What `work` does with the database it is given and the note that the entry is handled are one transaction: both happen, or
 * neither does. With SQLite `work` must not be async; with PostgreSQL it may be, and must use the client that it is given.
 */
export class EventStore<Database = unknown> {
  constructor(database: Database & (SqliteDatabase | PostgresClient | PostgresPool), table?: string);
  /** Makes the table, unless it is there. */
  create(): Promise<void>;
  /** Whether `work` was called: false for an entry that was handled before. */
  once(entry: { event_id: string }, work: (database: Database extends PostgresPool ? PostgresClient : Database) => unknown): Promise<boolean>;
}
