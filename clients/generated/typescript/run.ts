// The calls of README.md with the client that openapi-generator makes for TypeScript (fetch).

import {
  Configuration, DropsApi, ProducerApi, ReportsApi, ResponseError, WatchingApi, type Gift, type Problem,
} from "./src";

declare const process: { env: Record<string, string | undefined>; exitCode?: number };

const config = new Configuration({ basePath: process.env.TIPCAST_URL });
const [producer, drops, reports, watching] =
  [new ProducerApi(config), new DropsApi(config), new ReportsApi(config), new WatchingApi(config)];
const feed = "typescript";

const rose = (user: string, more: Partial<Gift> = {}): Gift =>
  ({ user: { id: user, name: user }, gift: { id: "rose", name: "Rose" }, ...more });

function check(what: string, ...facts: boolean[]) {
  if (!facts.every(Boolean)) throw new Error(`${what}: ${facts}`);
}

async function main() {
  const gift = rose("ann", { id: "g-1", value: { amount: 150, currency: "EUR" }, meta: { a: 1 } });
  const first = await producer.publishGift({ feed, gift });
  check("post", first.status === "accepted", first.seq === 1, first.duplicate === undefined);
  const again = await producer.publishGift({ feed, gift });
  check("post again", again.duplicate === true, again.row === first.row);

  const gifts = [rose("bob", { id: "g-2" }), rose("ann", { id: "g-1", test: true })];
  const batch = await producer.publishGiftBatch({ feed, giftBatch: { gifts } });
  check("batch", batch.accepted === 1, batch.rejected === 1, batch.results[1]?.error?.status === 422);

  const refused = await producer.publishGift({ feed: "not a feed", gift }).catch((error: unknown) => error);
  if (!(refused instanceof ResponseError)) throw new Error("a feed of that name");
  const problem: Problem = await refused.response.json();
  check("4xx", refused.response.status === 422, problem.type.startsWith("/problems/"), problem.status === 422);

  const policy = await producer.updatePolicy({ feed, policyPatch: { capacity: 5, rowTtlMs: 60_000 } });
  check("policy", policy.capacity === 5, (await producer.getPolicy({ feed })).rowTtlMs === 60_000);

  const later = await producer.publishGift({ feed, gift: rose("cyd", { id: "g-3", delayMs: 600_000 }) });
  const { scheduled } = await producer.listScheduledGifts({ feed });
  check("scheduled", later.status === "scheduled", scheduled[0]?.id === "g-3", scheduled[0]?.deliverAt instanceof Date);
  check("cancelled", (await producer.cancelScheduledGift({ feed, id: "g-3" })).status === "cancelled");

  const spec = { gift: { id: "r", name: "R" }, total: 3, perUser: 2 };
  check("drop", (await drops.defineDrop({ feed, drop: "rocket", dropSpec: spec })).free === 3);
  const claim = (id: string, user: string, pay: "now" | "later") =>
    drops.claimDrop({ feed, drop: "rocket", dropClaim: { id, user: { id: user, name: user }, pay } });
  const [sold, held] = [await claim("c-1", "ann", "now"), await claim("c-2", "bob", "later")];
  check("claims", sold.status === "sold", held.status === "held");
  check("confirmed", (await drops.confirmHold({ feed, hold: held.hold ?? "" })).status === "sold");

  const { entries } = await reports.claimEntries({ feed, group: "game", groupClaim: { consumer: "c" } });
  check("entries", entries[0]?.gift?.id === "g-1", entries.length === 4);
  const cursors = entries.map((entry) => entry.cursor);
  const acked = await reports.ackEntries({ feed, group: "game", entryCursors: { cursors } });
  check("ack", acked.acked === 4, acked.unknown === 0);

  check("read", (await watching.getFeed({ feed })).rows.at(-1)?.user.name === "ann");
  // Every type of entry that there is, and one that there is not yet.
  const samples = new ReportsApi(new Configuration({ basePath: process.env.SAMPLES_URL }));
  const types: string[] = [];
  let [count, amount] = [0, 0];
  for (;;) {
    const { entries: some } = await samples.claimEntries({ feed, group: "game", groupClaim: { consumer: "c" } });
    if (!some.length) break;
    for (const { type, delta } of some) {
      types.push(type);
      count += delta?.count ?? 0;
      amount += delta?.value?.amount ?? 0;
    }
    const told = await samples.ackEntries({ feed, group: "game", entryCursors: { cursors: some.map((entry) => entry.cursor) } });
    check("ack samples", told.acked === some.length);
  }
  check("samples", types.length === 10, new Set(types).size === 10, types.includes("gift.polished"), count === 7, amount === 5740);
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
