// First screen: is everything well; if not, what, since when, and what to do. Nodes, and charts of the last hour.

import { $, HOME, make } from "./keyed.js";
import { age, call, format, link, number, screen } from "./console_parts.js";
import { words } from "./console_words.js";

/** How often charts are read, in milliseconds: a step of theirs. */
const CHARTS_EVERY = 5_000;

/** A group whose oldest entry is older than this needs somebody, in milliseconds. */
const BEHIND = 300_000;

const bytes = new Intl.NumberFormat(document.documentElement.lang, { style: "unit", unit: "megabyte", maximumFractionDigits: 0 });

/** Three lines that send a gift and put the feed on a page, for who has none yet. */
const FIRST = `curl ${HOME}v1/feeds/show/gifts -H 'Content-Type: application/json' \\
  -d '{"user":{"id":"u-1","name":"Mia"},"gift":{"id":"rose","name":"Rose"}}'
<script type="module" src="${HOME}static/tipcast.js"></script> <tipcast-ticker feed="show"></tipcast-ticker>`;

/** What is wrong now and what to do about it, each with the screen that shows more. */
function troubles(nodes, { webhooks, groups, dead }) {
  const all = [];
  for (const { node, ready, detail } of nodes) {
    if (!ready) all.push([words.not_ready(node, detail ?? "")]);
    else if (detail) all.push([words.notes(node, detail)]);
  }
  for (const it of webhooks) {
    const name = `${it.feed} / ${it.webhook}`;
    const at = screen("readers", [], { show: name });
    if (it.state !== "active") all.push([words.is_disabled(name), at]);
    else if (it.failing_since) all.push([words.is_failing(name, format.moment(it.failing_since), it.last_error ?? ""), at]);
  }
  for (const { feed, group, lost, oldest_ms } of groups) {
    const name = `${feed} / ${group}`;
    if (lost > 0) all.push([words.has_lost(name, number(lost)), screen("readers", [], { show: name })]);
    else if (oldest_ms > BEHIND) all.push([words.is_behind(name, age(oldest_ms)), screen("readers", [], { show: name })]);
  }
  if (dead.length) all.push([words.has_dead(number(dead.length)), screen("readers", [], { show: "dead" })]);
  return all;
}

function nodeRow({ node, version, started_at, watchers, feeds, gifts_per_second, deliveries_per_second, p99_ms, rss_bytes, cpu, ready }) {
  const up = make("td", "", age(Math.max(0, Date.now() - Date.parse(started_at))));
  up.title = format.moment(started_at);
  const cells = [make("td", ready ? "name" : "name bad", node), make("td", "", version), up];
  const numbers = [watchers, feeds, gifts_per_second, deliveries_per_second].map(number);
  for (const text of [...numbers, `${number(p99_ms)} ms`, bytes.format(rss_bytes / 1e6), number(cpu)]) cells.push(make("td", "number", text));
  // On a phone each value has its name beside it.
  cells.forEach((cell, n) => n > 0 && (cell.dataset.name = words.nodes[n]));
  return make("tr", "", ...cells);
}

let said = "";

function drawHealth(nodes, overview) {
  const all = troubles(nodes, overview);
  $("verdict").textContent = all.length ? words.not_well(all.length) : words.well;
  $("verdict").className = all.length ? "bad" : "good";
  // What stays the same is left alone, so that a link keeps its focus.
  if (JSON.stringify(all) !== said) $("troubles").replaceChildren(...all.map(([text, at]) => make("li", "", at ? link(text, at) : text)));
  said = JSON.stringify(all);
  $("nodes").tHead.replaceChildren(make("tr", "", ...words.nodes.map((name) => make("th", "", name))));
  $("nodes").tBodies[0].replaceChildren(...nodes.map(nodeRow));
}

// ---------------------------------------------------------------- charts

/** What each chart shows, by the names of the API's series. */
const CHARTS = {
  rates: ["gifts_per_second", "deliveries_per_second"], watchers: ["watchers"],
  times: ["publish_p99_ms", "delivery_p99_ms", "store_p99_ms"], errors: ["errors_per_second"],
};
const COLOURS = ["--accent", "--accent-2", "--wait"];
const HEIGHT = 150;

/** Drawn charts by name, and for which colours they were drawn. */
let charts = new Map();
const dark = matchMedia("(prefers-color-scheme: dark)");

function chart(name, data) {
  const box = make("div", "chart");
  const title = make("h3", "", words.charts[name]);
  const ink = getComputedStyle($("charts")).color;
  const axis = { stroke: ink, grid: { stroke: ink, width: 0.15 }, ticks: { width: 0 }, font: "12px system-ui" };
  const figure = make("figure", "", title, box);
  $("charts").append(figure);
  // Colours that are written as light-dark(…) are resolved by the browser, on an element.
  const resolved = (variable) => {
    const probe = make("i", "");
    probe.style.color = `var(${variable})`;
    box.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  };
  const plot = new globalThis.uPlot({
    width: box.clientWidth || 300, height: HEIGHT, cursor: { drag: { x: false, y: false } }, legend: { live: true },
    scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
    axes: [{ ...axis, values: [[3600, "{HH}:{mm}"], [60, "{HH}:{mm}"], [1, "{HH}:{mm}:{ss}"]] }, { ...axis, size: 56, values: (_, ticks) => ticks.map((it) => format.count(it)) }],
    series: [{ value: (_, at) => (at ? format.moment(at * 1_000) : "–") }, ...CHARTS[name].map((series, n) => ({
      label: words.series[series], stroke: resolved(COLOURS[n]), width: 1.5, points: { show: false }, value: (_, it) => (it === null || it === undefined ? "–" : number(it)),
    }))],
  }, data, box);
  new ResizeObserver(() => box.clientWidth && plot.setSize({ width: box.clientWidth, height: HEIGHT })).observe(box);
  return plot;
}

function drawCharts({ at, series }) {
  $("charts").hidden = at.length < 2 || !globalThis.uPlot;
  if ($("charts").hidden) return;
  const times = at.map((it) => Date.parse(it) / 1_000);
  for (const [name, shown] of Object.entries(CHARTS)) {
    const data = [times, ...shown.map((it) => series[it])];
    if (charts.has(name)) charts.get(name).setData(data);
    else charts.set(name, chart(name, data));
    const last = shown.map((it) => `${words.series[it]} ${number(series[it].at(-1) ?? 0)}`).join(", ");
    charts.get(name).root.parentElement.setAttribute("aria-label", `${words.charts[name]}: ${last}`);
    charts.get(name).root.parentElement.setAttribute("role", "img");
  }
}

dark.addEventListener("change", () => {
  for (const plot of charts.values()) plot.destroy();
  charts = new Map();
  $("charts").replaceChildren();
});

let charted = 0;
/** Once there is a feed, how to begin is not shown any more. */
let begun = false;

export const overview = {
  every: 2_000,
  open() {
    charted = 0;
    $("first").querySelector("code").textContent = FIRST;
  },
  async look(current) {
    const [report, { nodes }] = await Promise.all([call("GET", "/v1/admin/overview"), call("GET", "/v1/nodes")]);
    begun ||= (await call("GET", "/v1/feeds?limit=1")).feeds.length > 0;
    if (!current()) return;
    drawHealth(nodes, report);
    $("first").hidden = begun;
    if (Date.now() - charted < CHARTS_EVERY) return;
    charted = Date.now();
    drawCharts(await call("GET", "/v1/stats?minutes=60"));
  },
};
