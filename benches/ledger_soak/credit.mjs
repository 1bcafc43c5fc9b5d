// A game's backend with the library for Node: credits what the ledger says. See soak.py.

import { DatabaseSync } from "node:sqlite";
import { EventStore, Tipcast } from "../../clients/js/dist/server.js";

const db = new DatabaseSync(process.env.DATABASE);
db.exec(`
  PRAGMA busy_timeout = 5000;
  CREATE TABLE IF NOT EXISTS givers (gift TEXT PRIMARY KEY, user TEXT);
  CREATE TABLE IF NOT EXISTS accounts (user TEXT, currency TEXT, amount INTEGER, PRIMARY KEY (user, currency));
  CREATE TABLE IF NOT EXISTS types (type TEXT PRIMARY KEY, n INTEGER);
`);
const store = new EventStore(db);
await store.create();

const count = ({ type }) => db.prepare("INSERT INTO types VALUES (?, 1) ON CONFLICT (type) DO UPDATE SET n = n + 1").run(type);

const credit = (entry) => store.once(entry, () => {
  count(entry);
  const { gift, drop = "", delta: { value } } = entry;
  const name = `${drop}/${gift.id}`;
  if (gift.user) db.prepare("INSERT INTO givers VALUES (?, ?) ON CONFLICT DO NOTHING").run(name, gift.user.id);
  const { user } = gift.user ? { user: gift.user.id } : db.prepare("SELECT user FROM givers WHERE gift = ?").get(name);
  if (value) {
    db.prepare("INSERT INTO accounts VALUES (?, ?, ?) ON CONFLICT (user, currency) DO UPDATE SET amount = amount + excluded.amount")
      .run(user, value.currency, value.amount);
  }
});

const credited = ["gift.accepted", "gift.merged", "gift.suppressed", "gift.denied", "drop.sold", "gift.retracted", "gift.refunded"];
const handlers = { ...Object.fromEntries(credited.map((type) => [type, credit])), "*": (entry) => store.once(entry, () => count(entry)) };
await new Tipcast(process.env.TIPCAST_URL).consume("soak", process.env.GROUP, handlers, { lease_ms: 5_000 });
