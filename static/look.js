/**
 * What a row looks like, wherever it is shown. A constructed stylesheet is no inline style: a page's
 * Content-Security-Policy does not hinder it. All colours can be set from outside by the
 * custom properties that docs/EMBEDDING.md lists.
 */

const LIGHT = `
  --_text: var(--tipcast-text, #1b1830);
  --_quiet: var(--tipcast-quiet, #676380);
  --_panel: var(--tipcast-background, #ffffff);
  --_row: var(--tipcast-row, #f6f4fc);
  --_line: var(--tipcast-line, #e4e0f2);
  --_accent: var(--tipcast-accent, #6d4aff);
  --_face: 78%;
  --_deep: 38%;
`;

const DARK = `
  --_text: var(--tipcast-text, #f1effc);
  --_quiet: var(--tipcast-quiet, #a9a4c6);
  --_panel: var(--tipcast-background, #17142a);
  --_row: var(--tipcast-row, #221e3b);
  --_line: var(--tipcast-line, #332d54);
  --_accent: var(--tipcast-accent, #a992ff);
  --_face: 32%;
  --_deep: 84%;
`;

/** Tier → its colour on light and on dark, and its glow. */
const TIERS = [
  [[1, 2], "#0d9488", "#2dd4bf", "45, 212, 191"],
  [[3, 4], "#2563eb", "#60a5fa", "59, 130, 246"],
  [[5, 6], "#7c3aed", "#b794ff", "139, 92, 246"],
  [[7, 8], "#e11d63", "#ff6b9d", "244, 63, 120"],
  [[9], "#b45309", "#fbbf24", "245, 158, 11"],
];

function tiers(scope, column) {
  return TIERS.map(([numbers, ...colours]) => {
    const rows = numbers.map((n) => `.row[data-tier="${n}"]`).join(", ");
    return `${scope}:is(${rows}) { --tier: ${colours[column]}; --glow: ${colours[2]}; }`;
  }).join("\n");
}

const CSS = `
:host, :root { ${LIGHT} }
${tiers("", 0)}
@media (prefers-color-scheme: dark) {
  :host(:not([theme="light"])), :root:not([data-theme="light"]) { ${DARK} }
  ${tiers(":host(:not([theme='light'])) ", 1)}
  ${tiers(":root:not([data-theme='light']) ", 1)}
}
:host([theme="dark"]), :root[data-theme="dark"] { ${DARK} }
${tiers(":host([theme='dark']) ", 1)}
${tiers(":root[data-theme='dark'] ", 1)}

.rows { position: relative; isolation: isolate; display: flex; flex-direction: column; gap: var(--tipcast-gap, 0.5em); margin: 0; padding: 0; list-style: none; }
.row {
  --size: var(--tipcast-avatar, 2.6em);
  position: relative; box-sizing: border-box; display: grid; align-items: center; overflow: hidden;
  grid-template-columns: auto minmax(0, 1fr) auto auto; gap: 0 0.7em;
  min-height: 3.7em; padding: 0.5em 0.9em 0.5em 0.6em;
  border-radius: var(--tipcast-radius, 1em); background: var(--_row); color: var(--_text);
  box-shadow: inset 0 0 0 1px var(--_line);
  font: var(--tipcast-font, 500 1em/1.35 system-ui, "Segoe UI", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif);
}
.row:not([data-tier="0"]) {
  background-image: linear-gradient(100deg, rgba(var(--glow), 0.22), rgba(var(--glow), 0.03) 70%);
  box-shadow: inset 0 0 0 1px rgba(var(--glow), 0.45);
}
.row:is([data-tier="7"], [data-tier="8"], [data-tier="9"]) {
  background-image: linear-gradient(100deg, rgba(var(--glow), 0.42), rgba(var(--glow), 0.1) 75%);
  box-shadow: inset 0 0 0 1.5px rgba(var(--glow), 0.8), 0 0.2em 1.1em rgba(var(--glow), 0.28);
}
.row[data-leaving] { z-index: -1; }
.avatar {
  position: relative; display: grid; place-items: center; width: var(--size); height: var(--size); overflow: hidden;
  border-radius: 50%; background: hsl(var(--hue, 260), 62%, var(--_face)); color: hsl(var(--hue, 260), 70%, var(--_deep));
  font-weight: 700; box-shadow: 0 0 0 2px var(--tier, transparent);
}
.initial { font-size: 1.1em; line-height: 1; }
.avatar img, .icon img { position: absolute; inset: 0; width: 100%; height: 100%; }
.avatar img { object-fit: cover; }
.icon img { object-fit: contain; }
.icon[data-pictured] > :not(img) { visibility: hidden; }
.said { min-width: 0; }
.head, .deed { display: flex; align-items: baseline; gap: 0.45em; min-width: 0; white-space: nowrap; }
.name, .gift { display: inline-block; min-width: 0; overflow: hidden; text-overflow: ellipsis; }
.name { flex: 0 1 auto; font-weight: 700; }
.time { flex: none; margin-inline-start: auto; color: var(--_quiet); font-size: 0.78em; font-variant-numeric: tabular-nums; }
.deed { flex-wrap: wrap; row-gap: 0; color: var(--_quiet); font-size: 0.9em; }
.gift { flex: 0 1 auto; color: var(--_text); }
.value { max-width: 100%; overflow: hidden; text-overflow: ellipsis; font-variant-numeric: tabular-nums; }
.value:empty, .badge:empty, .message:empty { display: none; }
.badge { flex: none; padding: 0.05em 0.5em; border: 1px dashed var(--_quiet); border-radius: 99px; color: var(--_quiet); font-size: 0.72em; }
.row[data-test] { background-image: repeating-linear-gradient(135deg, transparent 0 0.6em, rgba(128, 120, 160, 0.09) 0.6em 1.2em); }
.row[data-test] :is(.avatar, .icon) { filter: grayscale(0.7); }
.message {
  display: -webkit-box; overflow: hidden; -webkit-box-orient: vertical; -webkit-line-clamp: 3;
  margin: 0.2em 0 0; overflow-wrap: anywhere; font-size: 0.92em;
}
.icon { position: relative; display: grid; place-items: center; width: 2.3em; height: 2.3em; }
.icon svg { width: 100%; height: 100%; }
.sign { font-size: 1.7em; line-height: 1; }
.count {
  min-width: 1.6em; color: var(--tier, var(--_accent)); font-size: 1.35em; font-style: italic; font-weight: 800;
  font-variant-numeric: tabular-nums; text-align: end; white-space: nowrap; transform-origin: 70% 50%;
}
.row[data-tier="9"]::after {
  content: ""; position: absolute; inset: 0; pointer-events: none; transform: translateX(-100%);
  background: linear-gradient(100deg, transparent 35%, rgba(255, 255, 255, 0.38) 50%, transparent 65%);
}
/* An alert: the amount first, then the gift; a count only above one. */
.row[data-alert][data-money] .verb { display: none; }
.row[data-alert] .value { order: -1; color: var(--tier, var(--_accent)); font-size: 1.9em; font-weight: 800; line-height: 1.15; white-space: normal; overflow-wrap: anywhere; transform-origin: 20% 50%; }
.row[data-alert][data-money="long"] .value { font-size: 1.4em; }
.row[data-alert][data-money] .gift { font-size: 1.1em; font-weight: 600; }
.row[data-alert] .count:empty { display: none; }
/* Narrow: a phone, or a column at the side. */
.rows { container-type: inline-size; }
@container (max-width: 22em) {
  .row { --size: var(--tipcast-avatar, 2.2em); column-gap: 0.5em; padding-inline: 0.5em 0.6em; }
  .icon { width: 1.8em; height: 1.8em; }
  .count { font-size: 1.15em; }
  .verb { display: none; }
}
@media (prefers-reduced-motion: no-preference) {
  .row[data-tier="9"]::after { animation: sheen 1.3s ease-in-out 0.3s 2; }
  @keyframes sheen { to { transform: translateX(100%); } }
}
`;

let sheet;

/** The one stylesheet, shared by every ticker of a page. */
export function look() {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(CSS);
  }
  return sheet;
}
