// The program of docs/PHONES.md for React Native, word for word, with an app that goes to the background and comes back.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import WebSocket from "ws";
import { Gateway, until } from "./gateway.mjs";

const guide = readFileSync(new URL("../../../docs/PHONES.md", import.meta.url), "utf8");
const [, program] = /On React Native and Expo:\n\n```js\n([\s\S]*?)```/.exec(guide);
const rose = (id) => ({ id, user: { id, name: id }, gift: { id: "rose", name: "Rose" } });

test("an app in the background lets go, and comes back to where it was", async (t) => {
  const gateway = await Gateway.start(t);
  const dir = mkdtempSync(join(tmpdir(), "tipcast-phone-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const sockets = [];
  globalThis.WebSocket = class extends WebSocket {
    constructor(...given) {
      super(...given);
      sockets.push({ url: String(given[0]), socket: this });
    }
  };
  let listener;
  let removed = false;
  globalThis.AppState = { addEventListener: (_, heard) => {
    listener = heard;
    return { remove: () => (removed = true) };
  } };
  const text = program.replace('import { AppState } from "react-native";', "const { AppState } = globalThis;").replace('"tipcast/client"', JSON.stringify(new URL("../dist/client.js", import.meta.url).href));
  assert.ok(!text.includes("react-native"));
  writeFileSync(join(dir, "watch.mjs"), text);
  const { watch } = await import(join(dir, "watch.mjs"));

  await gateway.post("show", rose("a"));
  const seen = [];
  let shown = [];
  const end = watch(gateway.url, "show", ({ rows }, change) => {
    shown = rows.map((row) => row.user.id);
    seen.push(change.kind === "delta" ? change.ops.map((op) => op.row.user.id).join() : change.kind);
  });
  await until("the list", () => shown.join() === "a");
  listener("inactive");
  assert.equal(sockets.length, 1);
  listener("background");
  await until("nothing is open", () => sockets.every(({ socket }) => socket.readyState === WebSocket.CLOSED));
  await gateway.post("show", rose("b"));
  listener("active");
  listener("active");
  await until("what was missed", () => shown.join() === "b,a");
  assert.deepEqual(seen, ["snapshot", "b"], "what was missed, and nothing twice");
  assert.equal(sockets.length, 2);
  end();
  assert.ok(removed);
  await until("the end", () => sockets.every(({ socket }) => socket.readyState === WebSocket.CLOSED));
});
