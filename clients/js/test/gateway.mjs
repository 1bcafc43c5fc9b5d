// A gateway of a test's own, on a free port and an empty folder.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const BINARY = process.env.TIPCAST ?? new URL("../../../target/debug/tipcast", import.meta.url).pathname;

/** Waits until `done()`, which may be a promise; a test that waits too long says for what. */
export async function until(what, done) {
  const deadline = Date.now() + 30_000;
  while (!(await done())) {
    if (Date.now() > deadline) throw new Error(`not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A Node that has SQLite: this one, the one that .ci/need-node brings, or none. */
export async function nodeWithSqlite() {
  if (await import("node:sqlite").then(() => true, () => false)) return process.execPath;
  const newer = new URL(`../../../target/node/node_modules/node-linux-${process.arch}/bin/node`, import.meta.url).pathname;
  return existsSync(newer) ? newer : undefined;
}

export class Gateway {
  #dir = mkdtempSync(join(tmpdir(), "tipcast-"));
  #process;

  /** Ends with the test `t`, whatever comes of it. */
  static async start(t) {
    const gateway = new Gateway();
    t.after(() => gateway.#end("SIGTERM"));
    await gateway.serve("127.0.0.1:0");
    return gateway;
  }

  async serve(address) {
    this.#process = spawn(BINARY, ["--listen", address, "--data-dir", this.#dir], { stdio: ["ignore", "pipe", "ignore"] });
    const lines = createInterface({ input: this.#process.stdout });
    const [line] = await Promise.race([once(lines, "line"), once(this.#process, "exit")]);
    this.url = /^listening on (\S+)/.exec(line)?.[1];
    if (!this.url) throw new Error(`the gateway does not listen: ${line}`);
  }

  async #end(signal) {
    if (!this.#process || this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = once(this.#process, "exit");
    this.#process.kill(signal);
    await ended;
    if (signal === "SIGTERM") rmSync(this.#dir, { recursive: true });
  }

  /** kill -9, and up again at the same address. */
  async crash() {
    await this.#end("SIGKILL");
    await this.serve(new URL(this.url).host);
  }

  async post(feed, gift) {
    const answer = await fetch(`${this.url}/v1/feeds/${feed}/gifts`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(gift),
    });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  /** PUTs `body` to a path below `/v1/feeds/`. */
  async put(path, body) {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(`${this.url}/v1/feeds/${path}`, { method: "PUT", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  }

  async list(feed) {
    return (await fetch(`${this.url}/v1/feeds/${feed}`)).json();
  }
}
