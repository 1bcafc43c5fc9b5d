// What a package has to be, beside working: packed right, typed right for who uses it, and small.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = new URL("./", import.meta.url).pathname;
const run = (command, ...args) => execFileSync(join(here, "node_modules/.bin", command), args, { cwd: here, stdio: "inherit" });

// Who uses it, and what must not compile.
const USERS = {
  "client.ts": [["es2023"], `
    import { connect, type Row } from "tipcast/client";
    import { Fold } from "tipcast/fold";
    const feed = connect({ url: "https://gateway.example", feed: "demo", onChange: ({ rows }, change) => {
      const first: Row | undefined = rows[0];
      const combo: { id: string; count: number; end?: boolean } | undefined = first?.combo;
      if (change.kind === "delta") change.ops.map((op) => op.seq + (combo?.count ?? 0));
    }});
    feed.close();
    new Fold().take({ type: "keepalive" });
    // @ts-expect-error a feed is needed
    connect({ url: "https://gateway.example" });
  `],
  "injected.ts": [["es2023"], `
    import WebSocket from "./ws.js";
    import { connect } from "tipcast/client";
    connect({ url: "https://gateway.example", feed: "demo", WebSocket });
  `],
  "ws.ts": [["es2023"], `export default class WebSocket { constructor(public url: string, protocols?: string[]) {} close(code?: number) {} }`],
  "element.ts": [["es2023", "dom"], `
    import { TipcastTicker } from "tipcast";
    import "tipcast/element";
    const ticker: TipcastTicker = document.createElement("tipcast-ticker");
    ticker.addEventListener("tipcast-change", ({ detail }) => detail.list.rows.length);
  `],
  "board.ts": [["es2023", "dom"], `
    import { TipcastGoal } from "tipcast/board";
    import { connect } from "tipcast/client";
    const goal: TipcastGoal = document.createElement("tipcast-goal");
    document.body.append(goal, document.createElement("tipcast-leaders"), document.createElement("tipcast-total"));
    connect({ url: "https://gateway.example", feed: "demo", without: "totals", onChange: ({ totals, goals }) => {
      const first: number | undefined = totals.session?.leaders["points"]?.[0]?.score;
      const reached: string | undefined = goals[0]?.reached_at;
      console.log(first, reached);
    }});
    // @ts-expect-error nothing else can be left out
    connect({ url: "https://gateway.example", feed: "demo", without: "drops" });
  `],
  "commonjs.cts": [["es2023"], `
    import client = require("tipcast/client");
    client.connect({ url: "https://gateway.example", feed: "demo" }).close();
  `],
  "react.tsx": [["es2023", "dom"], `
    import "tipcast/react";
    import "tipcast/element";
    export const App = () => <tipcast-ticker url="https://gateway.example" feed="demo" max={5} theme="dark" className="a" />;
    export const Board = () => <><tipcast-leaders feed="demo" by="EUR" max={3} /><tipcast-goal feed="demo" goal="mic" /><tipcast-total feed="demo" period="day" /></>;
    // @ts-expect-error there is no such attribute
    export const Wrong = () => <tipcast-ticker feeed="demo" />;
  `],
  "hooks.tsx": [["es2023", "dom"], `
    import { Ticker, useFeed } from "tipcast/react";
    export function Names() {
      const { rows, state } = useFeed({ url: "https://gateway.example", feed: "demo" });
      return <><p>{state}</p><ol>{rows.map((row) => <li key={row.row}>{row.user.name}</li>)}</ol><Ticker feed="demo" max={5} className="a" /></>;
    }
    // @ts-expect-error a feed is needed
    export const Wrong = () => <p>{useFeed({ url: "https://gateway.example" }).state}</p>;
  `],
  "vue.ts": [["es2023", "dom"], `
    import { useFeed } from "tipcast/vue";
    const shown = useFeed(() => ({ url: "https://gateway.example", feed: "demo" }));
    const first: string | undefined = shown.value.rows[0]?.user.name;
    console.log(first, shown.value.state);
  `],
  "svelte.ts": [["es2023", "dom"], `
    import { feed } from "tipcast/svelte";
    feed({ url: "https://gateway.example", feed: "demo" }).subscribe(({ rows, state }) => console.log(rows.length, state))();
  `],
  "server.ts": [["es2023"], `
    import { DatabaseSync } from "node:sqlite";
    import pg from "pg";
    import { EventStore, Problem, Tipcast, Webhook, type Entry } from "tipcast/server";
    const tipcast = new Tipcast("https://gateway.example", { key: "tck_x" });
    const posted = await tipcast.post("demo", { user: { id: "u", name: "Mia" }, gift: { id: "rose", name: "Rose" }, value: { amount: 150, currency: "EUR" } });
    const row: string | undefined = posted.row;
    const store = new EventStore(new DatabaseSync("game.db"));
    await tipcast.consume("demo", "game", {
      "gift.accepted": (entry) => store.once(entry, (db) => {
        const amount: number | undefined = entry.delta.value?.amount;
        db.prepare("UPDATE accounts SET amount = amount + ? WHERE user = ?").run(amount ?? 0, entry.gift.user.id);
      }),
      "drop.sold": ({ drop }) => console.log(drop.length, row),
      "*": (entry) => console.log(entry.type, entry.lost?.count),
    });
    await new EventStore(new pg.Pool()).once({ event_id: "demo/1" }, async (client) => void (await client.query("SELECT 1")));
    await new EventStore(new pg.Client()).once({ event_id: "demo/1" }, async (client) => void (await client.query("SELECT 1")));
    const money = (entry: Entry) => (entry.type === "goal.reached" ? entry.goal.target : entry.type === "ledger.lost" ? entry.lost.count : 0);
    for await (const entry of tipcast.ledger("demo", { type: "drop.sold" })) console.log(money(entry));
    new Webhook("whsec_x").read({ "webhook-id": "1" }, new Uint8Array()).entries.map((it) => it.event_id);
    await tipcast.feed("demo").catch((error: unknown) => { if (error instanceof Problem) console.log(error.status, error.type); });
    // @ts-expect-error a gift has a user
    await tipcast.post("demo", { gift: { id: "rose", name: "Rose" } });
  `],
  "preact.tsx": [["es2023", "dom"], `
    import "tipcast/preact";
    export const App = () => <tipcast-ticker url="https://gateway.example" feed="demo" max={5} class="a" />;
    export const Board = () => <tipcast-goal feed="demo" goal="mic" class="a" />;
    // @ts-expect-error there is no such attribute
    export const Wrong = () => <tipcast-ticker feeed="demo" />;
  `],
};

function types(name, files, more = {}) {
  const dir = mkdtempSync(join(here, "dist/.types-"));
  try {
    for (const file of files) writeFileSync(join(dir, file), USERS[file][1]);
    mkdirSync(join(dir, "node_modules"));
    symlinkSync(here, join(dir, "node_modules/tipcast"));
    writeFileSync(join(dir, "package.json"), JSON.stringify({ type: "module" }));
    writeFileSync(join(dir, "tsconfig.json"), JSON.stringify({
      compilerOptions: {
        strict: true, noEmit: true, module: "nodenext", moduleResolution: "nodenext", target: "es2023", types: [],
        lib: USERS[files[0]][0], skipLibCheck: false, ...more,
      },
      include: ["*"],
    }));
    run("tsc", "-p", dir);
    console.log(`types: ${name}`);
  } finally {
    rmSync(dir, { recursive: true });
  }
}

types("the client, without the types of a browser", ["client.ts", "injected.ts", "ws.ts", "commonjs.cts"]);
types("the element", ["element.ts"]);
types("leaders, goals and totals", ["board.ts"]);
types("React 19", ["react.tsx"], { jsx: "react-jsx" });
types("React 18", ["react.tsx"], {
  jsx: "react-jsx",
  paths: {
    react: [join(here, "node_modules/types-react-18/index.d.ts")],
    "react/jsx-runtime": [join(here, "node_modules/types-react-18/jsx-runtime.d.ts")],
  },
});
types("React: hooks", ["hooks.tsx"], { jsx: "react-jsx" });
types("Vue", ["vue.ts"], { skipLibCheck: true });
types("Svelte", ["svelte.ts"]);
types("backends", ["server.ts"], { types: ["node"], skipLibCheck: true });
types("Preact", ["preact.tsx"], { jsx: "react-jsx", jsxImportSource: "preact" });

// Bytes that a page loads: one entry, bundled, minified, gzipped.
const BUDGETS = { fold: 2_048, client: 6 * 1024, element: 14 * 1024, board: 9 * 1024, tipcast: 15 * 1024 };
for (const [entry, most] of Object.entries(BUDGETS)) {
  const { outputFiles } = await build({
    entryPoints: [join(here, `dist/${entry}.js`)], bundle: true, minify: true, format: "esm", target: "es2022", write: false,
  });
  const size = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  console.log(`size: ${entry} ${size} of ${most} bytes`);
  if (size > most) throw new Error(`${entry} is ${size - most} bytes over its budget`);
}
// What a bundler leaves of the whole entry when only the fold is used.
const shaken = await build({
  stdin: { contents: 'import { Fold } from "tipcast/client"; console.log(new Fold().position)', resolveDir: here },
  bundle: true, minify: true, format: "esm", write: false,
});
const left = gzipSync(shaken.outputFiles[0].contents).length;
console.log(`size: Fold alone out of the client ${left} bytes`);
if (left > BUDGETS.fold) throw new Error("the client does not shake down to its fold");

run("publint", "--strict");
run("attw", "--pack", ".", "--profile", "node16");
