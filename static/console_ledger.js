// A feed's ledger: filtered, summed up, and taken along as CSV or lines of JSON.

import { $, make } from "./keyed.js";
import { Table, act, call, feedPath, format, link, notice, number, onSubmit, screen } from "./console_parts.js";
import { offerFeeds } from "./console_feeds.js";
import { words } from "./console_words.js";

/** Entries of one call. */
const PAGE = 1_000;

const form = $("filter");
let feed = "";
let rows = [];

const table = new Table(words.ledger, [
  { id: "cursor", name: words.entries.cursor, cell: ({ cursor }) => cursor, extra: true },
  { id: "at", name: words.entries.at, cell: ({ at }) => format.moment(at), sort: ({ cursor }) => Number(cursor) },
  { id: "type", name: words.entries.type, cell: ({ type }) => type, sort: ({ type }) => type },
  { id: "gift", name: words.entries.gift, cell: (it) => giftCell(it) },
  { id: "user", name: words.entries.user, extra: true, cell: ({ gift }) => gift?.user?.name ?? "" },
  { id: "units", name: words.entries.count, number: true, extra: true, cell: ({ delta }) => (delta ? number(delta.count) : ""), sort: ({ delta }) => delta?.count ?? 0 },
  { id: "value", name: words.entries.value, number: true, cell: ({ delta }) => (delta?.value ? format.money(delta.value) : ""), sort: ({ delta }) => delta?.value?.amount ?? 0 },
  { id: "reason", name: words.entries.reason, extra: true, cell: ({ reason, drop, goal, lost }) => reason ?? drop ?? goal?.title ?? (lost ? `${words.lost} ${lost.count}` : "") },
], ({ cursor }) => cursor, { by: "at" });

function giftCell({ gift, feed: of }) {
  return gift ? link(gift.gift?.name ?? gift.id, screen("gift", [], { feed: of, id: gift.id })) : "";
}

/** What the filter says, as the API's query. Times of the form are the person's own. */
function query(wish, more = {}) {
  const times = Object.fromEntries(["from", "to"].filter((name) => wish[name]).map((name) => [name, new Date(wish[name]).toISOString()]));
  const rest = Object.fromEntries(["type", "user"].filter((name) => wish[name]).map((name) => [name, wish[name]]));
  return new URLSearchParams({ ...times, ...rest, ...more });
}

const wish = () => Object.fromEntries(new FormData(form));

async function read(after, anew = true) {
  const { entries, next } = await call("GET", `${feedPath(feed)}/ledger?${query(wish(), { limit: PAGE, ...(after && { after }) })}`);
  rows = anew ? entries : [...rows, ...entries];
  table.show(rows);
  $("ledger-more").replaceChildren(...(next ? [act(words.more_button, () => read(next, false), "plain")] : []));
}

async function sum() {
  const { from, to } = wish();
  const { entries, count, values, types } = await call("GET", `${feedPath(feed)}/ledger/summary?${query({ from, to })}`);
  const money = values.map((it) => format.money(it)).join(" · ");
  $("summary").replaceChildren(make("b", "", money || "–"), ` · ${words.sums(number(entries), number(count))}`,
    make("div", "facts", ...Object.entries(types).map(([type, n]) => make("span", "", `${type} ${number(n)}`))));
}

/** One cell of CSV. A text that a spreadsheet would run as a formula begins with an apostrophe. */
function cell(value) {
  const text = value === undefined ? "" : typeof value === "number" ? String(value) : /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const COLUMNS = {
  cursor: (it) => it.cursor, event_id: (it) => it.event_id, at: (it) => it.at, type: (it) => it.type, gift: (it) => it.gift?.id, kind: (it) => it.gift?.gift?.name,
  user: (it) => it.gift?.user?.id, name: (it) => it.gift?.user?.name, count: (it) => it.delta?.count, amount: (it) => it.delta?.value?.amount, currency: (it) => it.delta?.value?.currency,
  drop: (it) => it.drop, reason: (it) => it.reason,
};

/** Reads everything that the filter lets through, and gives it to the person as a file. */
async function take(kind) {
  const parts = kind === "csv" ? [`${Object.keys(COLUMNS).join(",")}\r\n`] : [];
  let after = "";
  let taken = 0;
  while (after !== undefined) {
    const { entries, next } = await call("GET", `${feedPath(feed)}/ledger?${query(wish(), { limit: PAGE, ...(after && { after }) })}`);
    for (const it of entries) parts.push(kind === "csv" ? `${Object.values(COLUMNS).map((of) => cell(of(it))).join(",")}\r\n` : `${JSON.stringify(it)}\n`);
    taken += entries.length;
    after = next;
    notice(words.looking(number(taken)));
  }
  const file = URL.createObjectURL(new Blob(parts, { type: kind === "csv" ? "text/csv" : "application/x-ndjson" }));
  const way = link("", file);
  way.download = `${feed}-ledger.${kind}`;
  way.click();
  setTimeout(() => URL.revokeObjectURL(file), 10_000);
  notice(words.exported(number(taken)));
}

$("exports").append(act(words.csv, () => take("csv"), "plain"), act(words.lines, () => take("jsonl"), "plain"));
onSubmit(form, async (given) => {
  const { feed: of, ...rest } = given;
  const address = screen("ledger", [of], rest);
  if (location.hash === address) await show("");
  else location.hash = address;
});
offerFeeds(form.elements.feed);

async function show(after) {
  await Promise.all([read(after), sum()]);
}

export const ledger = {
  open({ parts, query: given }) {
    feed = parts[1] ?? "";
    form.elements.feed.value = feed;
    for (const name of ["type", "user", "from", "to"]) form.elements[name].value = given.get(name) ?? "";
    if (!table.box.isConnected) $("ledger-more").before(table.box);
    rows = [];
    table.show(rows);
    $("summary").replaceChildren();
    if (feed) show(given.get("after") ?? "").catch((error) => notice(error.message, true));
  },
};
