// The programs of the README for backends, word for word but for the gateway's address and the secret.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { Gateway, nodeWithSqlite, until } from "./gateway.mjs";

const here = new URL("../", import.meta.url).pathname;
const node = await nodeWithSqlite();

const programs = [...readFileSync(join(here, "README.md"), "utf8").split("## From a backend")[1].split("\n## ")[0].matchAll(/```js\n([\s\S]*?)```/g)].map(([, text]) => text);

/** Runs a program in a folder where the package is installed, until the test ends. */
function run(t, text, using = process.execPath) {
  const dir = mkdtempSync(join(tmpdir(), "tipcast-readme-"));
  symlinkSync(join(here, "node_modules"), join(dir, "node_modules"));
  writeFileSync(join(dir, "program.mjs"), text.replaceAll('"tipcast/server"', JSON.stringify(join(here, "dist/server.js"))));
  const process_ = spawn(using, ["program.mjs"], { cwd: dir, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(process_, "exit");
  t.after(async () => {
    process_.kill();
    await ended;
    rmSync(dir, { recursive: true });
  });
  return { dir, process: process_, ended };
}

test("a backend sends and credits", { skip: !node && "no Node with SQLite" }, async (t) => {
  const gateway = await Gateway.start(t);
  const { dir, process: program, ended } = run(t, programs[0].replace("https://gateway.example", gateway.url).replace(', { key: "tck_…" }', ""), node);
  await gateway.put("demo/goals/mic", { title: "Mic", by: "EUR", period: "day", target: 100 }).catch(() => {});
  await until("the gift is credited", async () => {
    const answer = await fetch(`${gateway.url}/v1/feeds/demo/groups/game`);
    if (!answer.ok) return false;
    const { lag, pending } = await answer.json();
    return lag === 0 && pending === 0;
  });
  program.kill("SIGTERM");
  assert.deepEqual(await ended, [0, null]);
  const read = `const { DatabaseSync } = await import("node:sqlite"); console.log(JSON.stringify(new DatabaseSync("game.db").prepare("SELECT * FROM accounts").all()))`;
  const accounts = execFileSync(node, ["--input-type=module", "-e", read], { cwd: dir, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  assert.deepEqual(JSON.parse(accounts), [{ currency: "EUR", amount: 150 }]);
});

test("a webhook is verified", async (t) => {
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const { port } = free.address();
  free.close();
  const key = randomBytes(32);
  const { process: program } = run(t, programs[1].replace("whsec_…", `whsec_${key.toString("base64")}`).replace("3000", `${port}, "127.0.0.1"`));
  const url = `http://127.0.0.1:${port}/`;
  await until("it listens", () => fetch(url, { method: "POST" }).then((answer) => answer.status === 401, () => false));
  const body = JSON.stringify({ type: "entries", feed: "demo", batch: "1", entries: [{ event_id: "demo/1", type: "gift.accepted" }] });
  const stamp = String(Math.floor(Date.now() / 1_000));
  const signature = createHmac("sha256", key).update(`msg_1.${stamp}.${body}`).digest("base64");
  const headers = { "webhook-id": "msg_1", "webhook-timestamp": stamp, "webhook-signature": `v1,${signature}` };
  const printed = once(program.stdout, "data");
  assert.equal((await fetch(url, { method: "POST", headers, body })).status, 204);
  assert.equal(String((await printed)[0]), "demo/1 gift.accepted\n");
  assert.equal((await fetch(url, { method: "POST", headers, body: `${body} ` })).status, 401);
});
