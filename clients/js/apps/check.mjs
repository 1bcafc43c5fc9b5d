// Each app: its types, strictly; its bundle, which must have the ticker in it and nothing of the other apps; and what it
// shows in a browser beside a gateway: the ticker, and the boards, whose settings each framework passes in its own way.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Gateway } from "../test/gateway.mjs";
import { Browser, serveFolder } from "./browser.mjs";

const here = new URL("./", import.meta.url).pathname;
const run = (env, command, ...args) =>
  execFileSync(join(here, "node_modules/.bin", command), args, {
    cwd: here, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "inherit"], encoding: "utf8",
  });
/** A folder, how its types are checked, and what its build is given. React 18's types are checked with the package. */
const APPS = {
  "react 19": ["react", () => run({}, "tsc", "-p", "react"), { REACT: "19" }],
  "react 18": ["react", () => {}, { REACT: "18" }],
  vue: ["vue", () => run({}, "vue-tsc", "-p", "vue"), {}],
  svelte: ["svelte", () => run({}, "svelte-check", "--workspace", "svelte", "--fail-on-warnings"), {}],
};

/** What is in the elements' shadows. */
const texts = () => {
  const inside = (element, selector) =>
    [...(document.querySelector(element)?.shadowRoot?.querySelectorAll(selector) ?? [])].map((node) => node.textContent);
  return {
    ticker: inside("tipcast-ticker", ".row[data-row] .name"),
    leaders: inside("tipcast-leaders", ".title, .name, .score"),
    goal: inside("tipcast-goal", ".title, .foot span"),
    total: inside("tipcast-total", ".title, .value"),
    state: document.querySelector("p")?.textContent,
  };
};
const SHOWN = {
  ticker: ["Cleo", "Ben", "Ana"],
  leaders: ["Top two", "Cleo", "€3.00", "Ben", "€2.00"],
  goal: ["A microphone", "€6.00", "€10.00"],
  total: ["Today", "€6.00"],
  state: "3 rows, the newest from Cleo",
};

const endings = [];
const gateway = await Gateway.start({ after: (end) => endings.push(end) });
try {
  await gateway.put("demo/policy", { totals: ["day"], dedup: "off" });
  await gateway.put("demo/goals/mic", { title: "Mic", period: "day", by: "EUR", target: 1_000 });
  for (const [n, name] of ["Ana", "Ben", "Cleo"].entries()) {
    const value = { amount: (n + 1) * 100, currency: "EUR" };
    await gateway.post("demo", { user: { id: name, name }, gift: { id: "rose", name: "Rose" }, value });
  }
  const browser = await Browser.start();
  endings.push(() => browser.close());
  for (const [app, [folder, types, env]] of Object.entries(APPS)) {
    const out = mkdtempSync(join(tmpdir(), "tipcast-app-"));
    try {
      types();
      run(env, "vite", "build", "--logLevel", "warn", "--outDir", out, "--emptyOutDir", folder);
      const scripts = readdirSync(join(out, "assets")).filter((name) => name.endsWith(".js"));
      const text = scripts.map((name) => readFileSync(join(out, "assets", name), "utf8")).join("");
      if (!text.includes("tipcast-ticker") || !text.includes("/v1/feeds/")) throw new Error(`${app}: the bundle has no ticker`);
      const served = await serveFolder(out);
      try {
        await browser.open(`${served.url}/?url=${gateway.url}`);
        await browser.until(SHOWN, texts.toString());
        // A ticker that joins the boards' connection leaves the one that it had begun.
        const said = (await browser.console()).filter((line) => !line.includes("closed before the connection is established"));
        if (said.length) throw new Error(`its console: ${said.join("\n")}`);
      } finally {
        served.close();
      }
      console.log(`${app}: types, bundle of ${Math.round(text.length / 1024)} KB, ticker and boards in a browser`);
    } catch (error) {
      console.error(app, error.stdout ?? "");
      throw error;
    } finally {
      rmSync(out, { recursive: true });
    }
  }
} finally {
  for (const end of endings.reverse()) await end();
}
