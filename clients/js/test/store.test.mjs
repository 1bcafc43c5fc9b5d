// The table of events that were handled: on SQLite, which Node has from 22.13 on, and on PostgreSQL where TIPCAST_POSTGRES names one.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import test from "node:test";
import { EventStore } from "tipcast/server";
import { nodeWithSqlite } from "./gateway.mjs";

const entry = { event_id: "show/1" };
const sqlite = await import("node:sqlite").catch(() => undefined);
const node = await nodeWithSqlite();

test("on SQLite", { skip: !node && "this Node has no SQLite, and no newer one is installed" }, async () => {
  if (!sqlite) return void execFileSync(node, ["--test", "--test-name-pattern=on SQLite", new URL(import.meta.url).pathname], { stdio: "pipe", env: { ...process.env, NODE_TEST_CONTEXT: "" } });
  const db = new sqlite.DatabaseSync(":memory:");
  db.exec("CREATE TABLE accounts (user TEXT PRIMARY KEY, amount INTEGER)");
  const store = new EventStore(db);
  await store.create();
  const add = (it) => it.prepare("INSERT INTO accounts VALUES ('mia', 5) ON CONFLICT (user) DO UPDATE SET amount = amount + 5").run();
  const sum = () => db.prepare("SELECT coalesce(sum(amount), 0) AS n FROM accounts").get().n;
  await assert.rejects(store.once(entry, (it) => {
    add(it);
    throw new Error("half");
  }), /half/);
  assert.equal(sum(), 0, "what failed left nothing");
  await assert.rejects(store.once(entry, async (it) => void add(it)), /must not be async/);
  assert.equal(sum(), 0);
  const all = await Promise.all([store.once(entry, add), store.once(entry, add), store.once({ event_id: "show/2" }, add)]);
  assert.deepEqual([all, sum()], [[true, false, true], 10]);
  await assert.rejects(store.once({ event_id: "x'); DROP TABLE accounts; --" }, add), TypeError);
});

const postgres = process.env.TIPCAST_POSTGRES;

test("on PostgreSQL, by pool and by client", { skip: !postgres && "TIPCAST_POSTGRES names none" }, async (t) => {
  const { default: pg } = await import("pg");
  const pool = new pg.Pool({ connectionString: postgres, max: 3 });
  const client = new pg.Client({ connectionString: postgres });
  await client.connect();
  const table = `events_${process.pid}`;
  await pool.query(`CREATE TABLE accounts_${process.pid} (amount INTEGER)`);
  t.after(async () => {
    await pool.query(`DROP TABLE ${table}, accounts_${process.pid}`);
    await Promise.all([pool.end(), client.end()]);
  });
  const add = async (it) => void (await it.query(`INSERT INTO accounts_${process.pid} VALUES (5)`));
  const sum = async () => Number((await pool.query(`SELECT coalesce(sum(amount), 0) AS n FROM accounts_${process.pid}`)).rows[0].n);
  let n = 0;
  for (const database of [pool, client]) {
    const store = new EventStore(database, table);
    await store.create();
    const one = { event_id: `show/${(n += 10)}` };
    await assert.rejects(store.once(one, async (it) => {
      await add(it);
      throw new Error("half");
    }), /half/);
    const before = await sum();
    const all = await Promise.all([store.once(one, add), store.once(one, add), store.once({ event_id: `show/${n + 1}` }, add)]);
    assert.deepEqual([all.filter(Boolean).length, (await sum()) - before], [2, 10]);
  }
});

test("what is no database, and no name of a table, is refused", () => {
  assert.throws(() => new EventStore("game.db"), /node:sqlite/);
  assert.throws(() => new EventStore({ query() {} }, "a; DROP"), /no name of a table/);
});
