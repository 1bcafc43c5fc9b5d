// Every feed: searched by how it begins, sorted by any column.

import { $, make } from "./keyed.js";
import { Table, call, link, number, onSubmit, screen, since } from "./console_parts.js";
import { words } from "./console_words.js";

/** Feeds of one call, and how many are shown at most. */
const PAGE = 1_000;
const MOST = 10_000;

/** More than this many are not read again by themselves. */
const LIVE = 2_000;

/** When, and at which position, each feed was seen last. */
let before = { at: 0, feeds: new Map() };

const sortable = (name) => (row) => row[name] ?? 0;
const table = new Table(words.feeds.list, [
  { id: "name", name: words.feeds.feed, cell: ({ feed }) => link(feed, screen("feeds", [feed])), sort: ({ feed }) => feed },
  { id: "rate", name: words.feeds.rate, number: true, cell: ({ rate }) => (rate === undefined ? "–" : number(rate)), sort: sortable("rate") },
  { id: "watchers", name: words.feeds.watchers, number: true, cell: ({ watchers }) => number(watchers), sort: sortable("watchers") },
  { id: "count", name: words.feeds.rows, number: true, extra: true, cell: ({ rows }) => number(rows), sort: sortable("rows") },
  { id: "visibility", name: words.feeds.visibility, extra: true, cell: ({ visibility, damaged }) => (damaged ? words.damaged : words[visibility] ?? visibility), sort: ({ visibility }) => visibility },
  { id: "last", name: words.feeds.last, extra: true, cell: ({ last_at }) => (last_at ? since(last_at) : "–"), sort: ({ last_at }) => last_at ?? "" },
  { id: "links", name: words.desk, cell: ({ feed }) => link(words.open, `desk/${encodeURIComponent(feed)}`) },
], ({ feed }) => feed, { by: "name" });

/** Feeds whose names begin with `prefix`, and whether there are more. */
export async function readFeeds(prefix, most = MOST) {
  const all = [];
  let next = "";
  while (next !== undefined && all.length < most) {
    const query = new URLSearchParams({ prefix, limit: PAGE, ...(next && { after: next }) });
    const page = await call("GET", `/v1/feeds?${query}`);
    all.push(...page.feeds);
    next = page.next;
  }
  return { all, more: next !== undefined };
}

let search = 0;
let shown = 0;

async function read() {
  const mine = ++search;
  const { all, more } = await readFeeds($("prefix").value);
  if (mine !== search) return;
  const at = Date.now();
  const seconds = (at - before.at) / 1_000;
  const rows = all.map((it) => {
    const known = before.feeds.get(it.feed);
    return { ...it, rate: known?.epoch === it.epoch ? Math.round((Math.max(0, it.seq - known.seq) / seconds) * 10) / 10 : undefined };
  });
  before = { at, feeds: new Map(all.map((it) => [it.feed, it])) };
  shown = rows.length;
  table.show(rows);
  $("all-feeds").textContent = more ? words.first_feeds(number(shown)) : "";
}

export const feeds = {
  every: 5_000,
  open({ query }) {
    if (!table.box.isConnected) $("feeds").append(table.box);
    $("prefix").value = query.get("prefix") ?? "";
    shown = 0;
  },
  async look() {
    if (shown <= LIVE) await read();
  },
};

onSubmit($("search"), async () => {});
$("prefix").addEventListener("input", () => {
  if (!$("prefix").checkValidity()) return;
  const { value } = $("prefix");
  history.replaceState(null, "", `${location.pathname}${location.search}${screen("feeds", [], { prefix: value })}`);
  read().catch(() => {});
});

/** A field that takes the name of a feed, with the feeds that there are offered. */
export function offerFeeds(input) {
  const options = make("datalist", "");
  options.id = `${input.name}-${Math.random().toString(36).slice(2)}`;
  input.setAttribute("list", options.id);
  input.after(options);
  input.addEventListener("input", async () => {
    if (!/^[A-Za-z0-9_.-]*$/.test(input.value)) return;
    const { feeds: found } = await call("GET", `/v1/feeds?${new URLSearchParams({ prefix: input.value, limit: 20 })}`).catch(() => ({ feeds: [] }));
    options.replaceChildren(...found.map(({ feed }) => Object.assign(make("option", ""), { value: feed })));
  });
}
