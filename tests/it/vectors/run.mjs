// node run.mjs FOLDER_OF_STATIC FOLDER_OF_VECTORS: exit code 1, and why, when a vector fails.

import { readFileSync, readdirSync } from "node:fs";

const [folder, vectors] = process.argv.slice(2);
const source = (path) => `data:text/javascript,${encodeURIComponent(readFileSync(path, "utf8"))}`;
const { Fold } = await import(source(`${folder}/fold.js`));
const { runVectors } = await import(source(new URL("run.js", import.meta.url)));
const files = readdirSync(vectors).filter((name) => name.endsWith(".json"));
const all = files.flatMap((name) => JSON.parse(readFileSync(`${vectors}/${name}`, "utf8")).vectors);
const wrong = runVectors(Fold, all);
for (const line of wrong) console.error(line);
console.log(`${all.length} vectors, ${wrong.length} wrong`);
process.exit(wrong.length ? 1 : 0);
