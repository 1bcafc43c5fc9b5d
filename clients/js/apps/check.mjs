// Each app's types, strictly, and its bundle, which must have the ticker in it and nothing of the other apps.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const here = new URL("./", import.meta.url).pathname;
const run = (command, ...args) => execFileSync(join(here, "node_modules/.bin", command), args, { cwd: here, stdio: ["ignore", "pipe", "inherit"], encoding: "utf8" });
const APPS = {
  react: () => run("tsc", "-p", "react"),
  vue: () => run("vue-tsc", "-p", "vue"),
  svelte: () => run("svelte-check", "--workspace", "svelte", "--fail-on-warnings"),
};

for (const [app, types] of Object.entries(APPS)) {
  const out = mkdtempSync(join(tmpdir(), "tipcast-app-"));
  try {
    types();
    run("vite", "build", "--logLevel", "warn", "--outDir", out, "--emptyOutDir", app);
    const [script] = readdirSync(join(out, "assets")).filter((name) => name.endsWith(".js"));
    const text = readFileSync(join(out, "assets", script), "utf8");
    if (!text.includes("tipcast-ticker") || !text.includes("/v1/feeds/")) throw new Error(`${app}: the bundle has no ticker`);
    console.log(`${app}: types and bundle, ${Math.round(text.length / 1024)} KB`);
  } catch (error) {
    console.error(error.stdout ?? "");
    throw error;
  } finally {
    rmSync(out, { recursive: true });
  }
}
