// Who reads the ledger: webhooks with their attempts, groups with their place, and what they gave up on.

import { $, make } from "./keyed.js";
import { act, age, ask, call, destroy, fact, feedPath, field, format, link, list, notice, number, onSubmit, screen } from "./console_parts.js";
import { edit } from "./console_form.js";
import { menu } from "./console_feed.js";
import { words } from "./console_words.js";

/** Which of them are shown: those whose name has this in it. */
let wanted = "";

/** What each list looked like: it is drawn anew only when it is another, so that a button stays. */
const drawn = new Map();

function draw(id, items, more, make_) {
  const looks = JSON.stringify([items, more, wanted]);
  if (drawn.get(id) === looks) return;
  drawn.set(id, looks);
  const all = make_(items);
  list($(id).querySelector("ul"), more ? [...all, make("li", "quiet", words.more)] : all);
}

const hookPath = ({ feed, webhook }) => `${feedPath(feed)}/webhooks/${encodeURIComponent(webhook)}`;
const groupPath = ({ feed, group }) => `${feedPath(feed)}/groups/${encodeURIComponent(group)}`;
const nameOf = ({ feed, webhook, group }) => `${feed} / ${webhook ?? group}`;

// ---------------------------------------------------------------- webhooks

/** What came back from an endpoint, in a line. */
function cameBack({ at, status, ms, error, response, entries }) {
  return `${format.moment(at)} · ×${number(entries)} · ${error ?? status} · ${number(ms)} ms${response ? ` · ${response}` : ""}`;
}

function webhookItem(it) {
  const bad = it.state !== "active";
  const name = nameOf(it);
  const facts = [fact(words.batches, number(it.batch_max)), make("span", "", it.delivery)];
  if (it.max_age_ms > 0) facts.push(make("span", "", words.drops_older(age(it.max_age_ms))));
  if (it.types) facts.push(make("span", "", it.types.join(", ")));
  if (it.failing_since) facts.push(fact(words.since, format.moment(it.failing_since), true));
  const attempts = make("ul", "attempts");
  const item = make("li", "", make("div", "name", `${name} `, make("span", bad ? "badge bad" : "badge", words[it.state] ?? it.state)),
    make("div", "note quiet", it.url), make("div", "facts", ...facts));
  if (it.last_error) item.append(make("div", "note bad", `${format.moment(it.last_error_at)}: ${it.last_error}`));
  item.append(make("div", "acts", act(words.try, async () => notice(words.tried(name, cameBack(await call("POST", `${hookPath(it)}/test`))))),
    act(words.attempts_of, async () => {
      const { attempts: all } = await call("GET", `${hookPath(it)}/attempts`);
      list(attempts, all.map((one) => make("li", one.error || one.status >= 300 ? "bad" : "", cameBack(one))));
    }),
    ...(bad || it.last_error ? [act(words.send_now, async () => {
      await call("POST", `${hookPath(it)}/retry`);
      notice(words.sends(name));
    })] : []),
    menu(act(words.edit, () => editWebhook(it.feed, it), "plain"), act(words.delete, () => deleteWebhook(it), "plain"))), attempts);
  return item;
}

const editWebhook = (feed, before) => edit({
  title: before ? nameOf(before) : `${words.new_webhook}: ${feed === "*" ? words.every : feed}`, method: "PUT", path: "/v1/feeds/{feed}/webhooks/{name}",
  // What GET hides cannot be sent back.
  before: before && { ...before, headers: undefined }, named: before ? "" : words.name,
  save: async (value, given) => {
    const webhook = before?.webhook ?? given;
    await call("PUT", hookPath({ feed, webhook }), value);
    notice(words.saved(webhook));
  },
});

async function deleteWebhook(it) {
  const { dead, more } = await call("GET", `${hookPath(it)}/dead`);
  await ask({
    title: `${words.delete}: ${nameOf(it)}`, body: [make("p", "", words.deletes_webhook(nameOf(it), `${number(dead.length)}${more ? "+" : ""}`))], yes: words.delete, danger: true,
    agree: async () => {
      await call("DELETE", hookPath(it));
      notice(words.deleted(nameOf(it)));
    },
  });
}

// ---------------------------------------------------------------- groups

function groupItem(it) {
  const { lag, pending, oldest_ms, dead, lost, feed } = it;
  return make("li", "", make("div", "name", nameOf(it)), make("div", "facts",
    fact(words.lag, number(lag)), fact(words.pending, number(pending)), fact(words.oldest, age(oldest_ms)),
    fact(words.dead, number(dead), dead > 0), fact(words.lost, number(lost), lost > 0), link(words.ledger, screen("ledger", [feed]))),
  menu(act(words.seek, () => seek(it), "plain"), destroy(words.delete, `${words.delete}: ${nameOf(it)}`, [words.deletes_group(nameOf(it), number(lag), number(pending))], async () => {
    await call("DELETE", groupPath(it));
    notice(words.deleted(nameOf(it)));
  })));
}

/** Moves a group to the start, to now, to a time or to a cursor. */
async function seek(it) {
  const where = make("select", "", ...["start", "now", "at", "cursor"].map((value) =>
    Object.assign(make("option", "", { start: words.start, now: words.now, at: words.at_time, cursor: words.cursor }[value]), { value })));
  where.setAttribute("aria-label", words.place);
  const at = field(words.at_time, "at", { type: "datetime-local", step: 1 });
  const cursor = field(words.cursor, "cursor", { inputMode: "numeric", maxLength: 16 });
  const choose = () => {
    at.hidden = where.value !== "at";
    cursor.hidden = where.value !== "cursor";
  };
  where.addEventListener("change", choose);
  choose();
  await ask({
    title: `${words.seek}: ${nameOf(it)}`, body: [make("p", "", words.seeks), make("p", "", where), at, cursor], yes: words.seek, danger: true,
    agree: async () => {
      const wish = { start: () => ({ to: "start" }), now: () => ({ to: "now" }), at: () => ({ at: new Date(at.querySelector("input").value).toISOString() }), cursor: () => ({ cursor: cursor.querySelector("input").value.trim() }) }[where.value]();
      const { cursor: next } = await call("POST", `${groupPath(it)}/seek`, wish);
      notice(words.moved(nameOf(it), next));
    },
  });
}

// ---------------------------------------------------------------- dead letters

/** Whose letter it is, as the path of its API. */
function box({ scope, group, webhook }) {
  return `${group === undefined ? hookPath({ feed: scope, webhook }) : groupPath({ feed: scope, group })}/dead/replay`;
}

async function replay(path, body) {
  const { replayed } = await call("POST", path, body);
  drawn.delete("dead");
  notice(words.replayed(number(replayed)));
}

function letterItem(letter) {
  const { id, feed, reason, died_at, attempts, entry } = letter;
  const gift = entry.gift ?? {};
  const what = gift.user ? `${gift.user.name} → ${gift.gift.name} ×${number(entry.delta.count)}` : entry.type;
  const chosen = Object.assign(make("input", ""), { type: "checkbox", value: id });
  chosen.setAttribute("aria-label", what);
  const item = make("li", "letter", chosen, make("div", "", make("div", "name", what), make("div", "note bad", reason),
    make("div", "facts", link(`${feed} · ${gift.id ?? id}`, screen("gift", [], { feed, id: gift.id ?? "" })), make("span", "", words.attempts(number(attempts))),
      fact(words.died, format.moment(died_at)))), act(words.replay, () => replay(box(letter), { ids: [id] })));
  item.dataset.id = id;
  return item;
}

function letters(dead) {
  const boxes = Map.groupBy(dead, box);
  return [...boxes].flatMap(([path, all]) => {
    const { scope, group, webhook } = all[0];
    const whose = `${scope === "*" ? words.every : scope} / ${group === undefined ? words.webhook : words.group} ${group ?? webhook}`;
    const items = all.map(letterItem);
    const selected = () => items.filter((item) => item.querySelector("input").checked).map((item) => item.dataset.id);
    return [make("li", "head", make("span", "note", whose), make("span", "acts",
      act(words.all, () => replay(path, {})), act(words.chosen, async () => selected().length && replay(path, { ids: selected() }), "plain"))), ...items];
  });
}

$("new-webhook").append(act(words.new_webhook, async () => {
  const of = field(words.feed, "feed", { value: wanted && !wanted.includes(" ") ? wanted : "*", required: true, maxLength: 64 });
  const agreed = await ask({ title: words.new_webhook, body: [of], yes: words.new_webhook });
  if (agreed) await editWebhook(of.querySelector("input").value.trim());
}, "plain"));

$("reader-search").addEventListener("input", () => {
  wanted = $("reader-search").value.trim();
  look().catch((error) => notice(error.message, true));
});
onSubmit($("reader-search").form, async () => {});

async function look(current = () => true) {
  const { groups, webhooks, dead, more } = await call("GET", "/v1/admin/overview");
  if (!current()) return;
  const mine = (name) => wanted === "dead" || name.includes(wanted);
  draw("webhooks", webhooks.filter((it) => mine(nameOf(it))), more.webhooks, (all) => all.map(webhookItem));
  draw("groups", groups.filter((it) => mine(nameOf(it))), more.groups, (all) => all.map(groupItem));
  draw("dead", dead.filter(({ scope, group, webhook }) => mine(`${scope} / ${group ?? webhook}`)), more.dead, letters);
}

export const readers = {
  every: 2_000,
  open({ query }) {
    wanted = query.get("show") ?? "";
    $("reader-search").value = wanted === "dead" ? "" : wanted;
    if (wanted === "dead") $("dead").scrollIntoView();
  },
  look,
};
