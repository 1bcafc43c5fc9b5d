// Puts the package together in dist/. The modules are those that a gateway serves under /static/, byte for byte: what is
// tested there is what is published. For `require`, each entry is bundled once more as CommonJS.

import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

export const ENTRIES = ["tipcast", "client", "fold", "element", "board"];
/** Entries that a gateway does not serve: for backends and frameworks, from src/. */
export const OWN = ["server", "react", "vue", "svelte"];
/** Entries that are types only. */
const TYPES_ONLY = ["preact"];
export const MODULES = [
  ...ENTRIES, "connect", "format", "icons", "lines", "look", "reconnecting", "rows", "shared", "ticker", "words",
];

const here = new URL("./", import.meta.url);
const at = (path) => new URL(path, here);

rmSync(at("dist"), { recursive: true, force: true });
mkdirSync(at("dist/cjs"), { recursive: true });
for (const name of MODULES) cpSync(at(`../../static/${name}.js`), at(`dist/${name}.js`));
for (const file of readdirSync(at("src"))) cpSync(at(`src/${file}`), at(`dist/${file}`));
for (const name of TYPES_ONLY) {
  writeFileSync(at(`dist/${name}.js`), "export {};\n");
  writeFileSync(at(`dist/cjs/${name}.cjs`), "module.exports = {};\n");
}
for (const file of readdirSync(at("types"))) {
  const text = readFileSync(at(`types/${file}`), "utf8");
  writeFileSync(at(`dist/${file}`), text);
  writeFileSync(at(`dist/cjs/${file.replace(".d.ts", ".d.cts")}`), text.replaceAll(/"(\.\/\w+)\.js"/g, '"$1.cjs"'));
}
await build({
  entryPoints: [...ENTRIES, ...OWN].map((name) => at(`dist/${name}.js`).pathname),
  outdir: at("dist/cjs").pathname,
  outExtension: { ".js": ".cjs" },
  bundle: true,
  external: ["node:*", "react", "vue"],
  format: "cjs",
  platform: "neutral",
  target: "es2022",
  // Only says where the module came from, which a bundle cannot know.
  define: { "import.meta.url": '""' },
  logLevel: "warning",
});
for (const file of ["LICENSE-MIT", "LICENSE-APACHE"]) cpSync(at(`../../${file}`), at(file));
