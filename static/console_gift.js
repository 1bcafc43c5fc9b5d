// Where is my gift: by its id in one feed or in all, by a part of its giver's name or id, or a sale by its claim's id.

import { $, make } from "./keyed.js";
import { act, ask, call, destroy, feedPath, field, format, link, list, notice, number, onSubmit, screen, since } from "./console_parts.js";
import { offerFeeds, readFeeds } from "./console_feeds.js";
import { giftLine } from "./console_feed.js";
import { words } from "./console_words.js";

/** Feeds that are asked at once, and before somebody is asked whether to go on. */
const AT_ONCE = 8;
const FEEDS = 2_000;

/** Entries of one call, and of today's that are looked at before somebody is asked whether to go on. */
const ENTRIES = 1_000;
const CALLS = 20;

/** A later search makes an earlier one void. */
let turn = 0;

const form = $("find");

/** The answer, or undefined where there is none of that id. */
const known = (answer) => answer.catch((error) => (error.status === 404 ? undefined : Promise.reject(error)));

const findGift = (feed, id) => known(call("GET", `${feedPath(feed)}/gifts?${new URLSearchParams({ id })}`));

/** A sale of one of the feed's drops with that claim id. */
async function findSale(feed, id) {
  const { drops } = await call("GET", `${feedPath(feed)}/drops`);
  for (const { drop } of drops) {
    const sale = await known(call("GET", `${feedPath(feed)}/drops/${encodeURIComponent(drop)}/claims?${new URLSearchParams({ id })}`));
    if (sale) return { drop, ...sale };
  }
  return undefined;
}

// ---------------------------------------------------------------- what is shown

/** A moment of a story. */
const moment = (at, ...parts) => [at, make("li", "", since(at), " ", ...parts)];

function entryLine(feed, { cursor, type, delta }) {
  const parts = [`${words.entry} `, link(cursor, screen("ledger", [feed], { after: String(BigInt(cursor) - 1n) })), `: ${type}`];
  if (delta) parts.push(` · ×${number(delta.count)}${delta.value ? ` · ${format.money(delta.value)}` : ""}`);
  return parts;
}

function readerLine(feed, { kind, name, state, attempts, last_error }) {
  const tries = attempts === undefined ? "" : ` · ${words.attempts(number(attempts))}`;
  return make("li", state === "dead" || state === "lost" ? "bad" : "", `${words[kind] ?? kind} `,
    link(name, screen("readers", [], { show: `${feed} / ${name}` })), `: ${state}${tries}${last_error ? ` · ${last_error}` : ""}`);
}

function drawStory(feed, story) {
  const { id, status, at, deliver_at, row, seq, gift, entries, readers } = story;
  notice(words.story(id, status));
  const moments = [moment(at, `${words.taken}: ${status}${row ? ` · ${words.row} ${row}` : ""}${seq ? ` · seq ${seq}` : ""}`)];
  for (const it of entries) moments.push(moment(it.at, ...entryLine(feed, it)));
  if (deliver_at) moments.push(moment(deliver_at, words.shown_at));
  moments.sort(([a], [b]) => Date.parse(a) - Date.parse(b));
  $("found").replaceChildren(make("h3", "", link(feed, screen("feeds", [feed])), ` · ${id}`), ...(gift ? [make("p", "", ...giftLine(gift))] : []));
  $("story").replaceChildren(...moments.map(([, item]) => item), ...readers.map((it) => readerLine(feed, it)));
  if (["accepted", "merged", "suppressed", "denied"].includes(status)) $("found").append(make("p", "acts", ...changes(feed, id, gift)));
}

function changes(feed, id, gift) {
  const again = async () => drawStory(feed, await findGift(feed, id));
  const path = (deed) => `${feedPath(feed)}/gifts/${deed}?${new URLSearchParams({ id })}`;
  const retract = destroy(words.retract, `${words.retract}: ${id}`, [words.retracts(id)], async () => {
    await call("POST", path("retract"), {});
    await again();
    notice(words.retracted(id));
  });
  const refund = act(words.refund, async () => {
    const amount = field(`${words.refunds} (${gift.value.currency})`, "refunded", { type: "number", min: 0, max: gift.value.amount, value: gift.value.amount, required: true });
    await ask({
      title: `${words.refund}: ${id}`, body: [make("p", "", ...giftLine(gift)), amount], yes: words.refund, danger: true,
      agree: async () => {
        await call("POST", path("refund"), { refunded: Number(amount.querySelector("input").value) });
        await again();
      },
    });
  }, "plain");
  return gift?.value ? [refund, retract] : [retract];
}

function drawSale(feed, { drop, id, status, at, expires_at, user, count, value, hold, refunded, row }) {
  notice(words.story(id, status));
  $("found").replaceChildren(make("h3", "", link(feed, screen("feeds", [feed])), ` · ${words.sale(drop)} · ${id}`),
    make("p", "", `${user.name} ×${number(count)}`, value ? ` · ${format.money(value)}` : "", refunded ? ` · ${words.refunds} ${format.money({ amount: refunded, currency: value.currency })}` : ""));
  const moments = [moment(at, `${words.taken}: ${status}${hold ? ` · ${hold}` : ""}${row ? ` · ${words.row} ${row}` : ""}`)];
  if (expires_at) moments.push(moment(expires_at, words.expires));
  $("story").replaceChildren(...moments.map(([, item]) => item));
}

// ---------------------------------------------------------------- what is searched

/** Looks in every feed, those that changed last first. */
async function everywhere(id, mine) {
  const { all } = await readFeeds("");
  const names = all.toSorted((a, b) => ((a.last_at ?? "") < (b.last_at ?? "") ? 1 : -1)).map(({ feed }) => feed);
  const failed = [];
  const look = async (from) => {
    for (let n = from; n < Math.min(names.length, from + FEEDS); n += AT_ONCE) {
      if (mine !== turn) return;
      notice(words.looking(number(n)));
      const some = names.slice(n, n + AT_ONCE);
      const stories = await Promise.all(some.map(async (feed) => {
        try {
          const story = await findGift(feed, id);
          return story ? { feed, story } : { feed, sale: await findSale(feed, id) };
        } catch (error) {
          // One feed that does not answer, damaged or on a shard that is away, hides no other.
          if (error.status === 401 || error.status === 403) throw error;
          failed.push(feed);
          return {};
        }
      }));
      const found = stories.find(({ story, sale }) => story ?? sale);
      if (found && mine === turn) return found.story ? drawStory(found.feed, found.story) : drawSale(found.feed, found.sale);
    }
    if (mine !== turn) return;
    const silent = failed.length ? ` ${words.silent(failed.slice(0, 5).join(", "))}` : "";
    notice(`${words.unknown} ${words.looked(number(Math.min(names.length, from + FEEDS)))}${silent}`, true);
    if (names.length > from + FEEDS) $("found").replaceChildren(act(words.further, () => look(from + FEEDS), "plain"));
  };
  await look(0);
}

/** Today's gifts of a feed whose giver has this in name or id. */
async function byGiver(feed, giver, mine) {
  const midnight = new Date();
  midnight.setHours(0, 0, 0, 0);
  const wanted = giver.toLocaleLowerCase();
  const gifts = new Map();
  const look = async (from) => {
    let after = from;
    for (let n = 0; n < CALLS && after !== undefined; n += 1) {
      const query = new URLSearchParams({ from: midnight.toISOString(), limit: ENTRIES, ...(after && { after }) });
      const { entries, next } = await call("GET", `${feedPath(feed)}/ledger?${query}`);
      if (mine !== turn) return;
      for (const { type, at, drop, gift } of entries) {
        const { user } = gift ?? {};
        if (user && [user.id, user.name].some((it) => it?.toLocaleLowerCase().includes(wanted))) gifts.set(`${drop ?? ""}/${gift.id}`, { ...gifts.get(`${drop ?? ""}/${gift.id}`), ...gift, at, type });
      }
      after = next;
    }
    notice(gifts.size ? words.results(number(gifts.size)) : words.nothing_found, !gifts.size);
    list($("story"), [...gifts.values()].reverse().slice(0, ENTRIES).map((it) =>
      make("li", "", ...giftLine(it), make("div", "facts", link(it.id, screen("gift", [], { feed, id: it.id })), it.type, since(it.at)))));
    $("found").replaceChildren(...(after === undefined ? [] : [act(words.further, () => look(after), "plain")]));
  };
  await look("");
}

async function search({ feed, id, giver }) {
  turn += 1;
  $("story").replaceChildren();
  $("found").replaceChildren();
  notice("");
  if (giver && !id) {
    if (!feed) throw new Error(words.give_feed);
    return byGiver(feed, giver, turn);
  }
  if (!id) return undefined;
  if (!feed) return everywhere(id, turn);
  const story = await findGift(feed, id);
  if (story) return drawStory(feed, story);
  const sale = await findSale(feed, id);
  if (sale) return drawSale(feed, sale);
  throw new Error(words.unknown);
}

onSubmit(form, async (wish) => {
  const address = screen("gift", [], wish);
  if (location.hash === address) await search(wish);
  else location.hash = address;
});
offerFeeds(form.elements.feed);

export const gift = {
  open({ query }) {
    const wish = Object.fromEntries(["feed", "id", "giver"].map((name) => [name, query.get(name) ?? ""]));
    for (const [name, value] of Object.entries(wish)) form.elements[name].value = value;
    search(wish).catch((error) => notice(error.message, true));
  },
  close() {
    turn += 1;
  },
};
