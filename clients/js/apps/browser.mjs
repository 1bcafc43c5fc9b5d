// A headless Chromium, driven by chromedriver over WebDriver, and a server for the files of a built app.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { createInterface } from "node:readline";

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
/** Far more than a page needs, also on a busy machine. */
const PATIENCE_MS = 30_000;

/** Serves `folder` on a free port; `{url, close()}`. */
export async function serveFolder(folder) {
  const server = createServer((request, response) => {
    const path = normalize(new URL(request.url, "http://localhost").pathname);
    const file = join(folder, path === "/" ? "index.html" : path);
    let content;
    try {
      content = readFileSync(file);
    } catch {
      return response.writeHead(404).end();
    }
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" }).end(content);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, close };
}

export class Browser {
  #process;
  #folder = mkdtempSync(join(tmpdir(), "tipcast-browser-"));
  #session;

  static async start() {
    const browser = new Browser();
    try {
      await browser.#start();
      return browser;
    } catch (error) {
      await browser.close();
      throw error;
    }
  }

  async #start() {
    this.#process = spawn("chromedriver", ["--port=0"], { stdio: ["ignore", "pipe", "ignore"], env: { ...process.env, TMPDIR: this.#folder } });
    const lines = createInterface({ input: this.#process.stdout });
    const port = await new Promise((found, failed) => {
      lines.on("line", (line) => {
        const port = /on port (\d+)\.$/.exec(line)?.[1];
        if (port) found(port);
      });
      this.#process.once("error", failed);
      this.#process.once("exit", (code) => failed(new Error(`chromedriver ended with ${code}`)));
    });
    const base = `http://127.0.0.1:${port}`;
    const args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"];
    const asked = { capabilities: { alwaysMatch: { "goog:loggingPrefs": { browser: "ALL" }, "goog:chromeOptions": { args } } } };
    const { sessionId } = await this.#call(`${base}/session`, asked);
    this.#session = `${base}/session/${sessionId}`;
  }

  async #call(url, body) {
    const answer = await fetch(url, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } });
    const { value } = await answer.json();
    if (!answer.ok) throw new Error(`${url}: ${JSON.stringify(value)}`);
    return value;
  }

  open(url) {
    return this.#call(`${this.#session}/url`, { url });
  }

  /** What the function gives in the page. */
  run(script, ...args) {
    return this.#call(`${this.#session}/execute/sync`, { script: `return (${script})(...arguments)`, args });
  }

  /** Waits until `script` gives `wanted`; the error says what it gave last, and what the console has. */
  async until(wanted, script, ...args) {
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
      // As text: the driver sorts the members of objects.
      const found = await this.run(`(...args) => JSON.stringify((${script})(...args))`, ...args);
      if (found === JSON.stringify(wanted)) return;
      if (Date.now() > deadline) {
        throw new Error(`the page has ${found}, not ${JSON.stringify(wanted)}; its console: ${JSON.stringify(await this.console())}`);
      }
      await new Promise((wake) => setTimeout(wake, 50));
    }
  }

  /** Lines of the page's console since the last call. */
  async console() {
    const lines = await this.#call(`${this.#session}/se/log`, { type: "browser" });
    return lines.map(({ message }) => message).filter((message) => !message.includes("favicon.ico"));
  }

  async close() {
    if (this.#session) await fetch(this.#session, { method: "DELETE" }).catch(() => {});
    if (this.#process && this.#process.exitCode === null) {
      const ended = once(this.#process, "exit");
      this.#process.kill();
      await ended;
    }
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
