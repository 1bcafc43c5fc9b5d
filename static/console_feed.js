// One feed: its live list, how it is set, what waits, drops, goals and blocks; each change asks once and says what it does.

import { connect } from "./connect.js";
import { $, HOME, make } from "./keyed.js";
import { act, ask, call, destroy, fact, feedPath, field, format, key, link, list, notice, number, screen, since } from "./console_parts.js";
import { edit } from "./console_form.js";
import { words } from "./console_words.js";

/** The feed that is shown, and its connection. */
let name = "";
let connection = null;

const section = (id, title, ...parts) => {
  const heading = make("h3", "", title);
  heading.id = `${id}-title`;
  const element = make("section", "panel", heading, ...parts);
  element.setAttribute("aria-labelledby", heading.id);
  return element;
};

const lists = Object.fromEntries(["rows", "scheduled", "review", "drops", "goals", "blocks"].map((id) => {
  const element = make(id === "rows" ? "ol" : "ul", "");
  element.id = `feed-${id}`;
  return [id, element];
}));
const policy = Object.assign(make("dl", "pairs"), { id: "feed-policy" });
const totals = Object.assign(make("dl", "pairs"), { id: "feed-totals" });
const presence = Object.assign(make("p", "quiet"), { id: "feed-presence" });
const heading = make("h2", "");
const links = make("p", "acts");

function build() {
  if (heading.isConnected) return;
  $("feed").append(heading, presence, links,
    section("live", words.live_list, lists.rows),
    section("totals", words.totals, totals, act(words.new_session, beginSession, "plain")),
    section("goals", words.goals, lists.goals, act(words.new_goal, () => editGoal(), "plain")),
    section("policy", words.policy, policy, act(words.edit, editPolicy, "plain")),
    section("scheduled", words.scheduled, lists.scheduled),
    section("review", words.review, lists.review),
    section("drops", words.drops, lists.drops, act(words.new_drop, () => editDrop(), "plain")),
    section("blocks", words.blocks, lists.blocks, act(words.block, blockUser, "plain")));
}

// ---------------------------------------------------------------- what is shown

/** A gift in a line: who, what, how many, what it is worth, and a time where there is one; its message below. */
export function giftLine({ user, gift, count, value, message, test }, time) {
  const parts = [make("span", "name", user?.name ?? user?.id ?? words.anonymous), ` → ${gift?.name ?? ""} ×${number(count ?? 1)}`];
  if (value) parts.push(` · ${format.money(value)}`);
  if (test) parts.push(" · test");
  if (time) parts.push(" · ", time);
  if (message) parts.push(make("div", "note quiet", message));
  return parts;
}

function drawLive({ rows, totals: periods, goals }) {
  list(lists.rows, rows.map((row) => make("li", "", ...giftLine(row, since(row.updated_at)))));
  const counted = Object.entries(periods ?? {}).filter(([, it]) => it);
  totals.replaceChildren(...counted.flatMap(([period, it]) => [make("dt", "", words.periods[period] ?? period), make("dd", "",
    [...(it.values ?? []).map((value) => format.money(value)), `${number(it.points ?? 0)} ${words.points}`, `${number(it.gifts ?? 0)} ${words.gifts}`, `${number(it.gifters ?? 0)} ${words.gifters}`].join(" · "))]));
  unlessOpen([lists.goals], () => drawGoals(goals ?? []));
}

function drawGoals(goals) {
  list(lists.goals, goals.map((it) => {
    const bar = Object.assign(make("progress", ""), { max: it.target, value: Math.min(it.value, it.target) });
    bar.setAttribute("aria-label", it.title);
    const stands = `${format.amount(it.by, it.value)} / ${format.amount(it.by, it.target)} · ${words.periods[it.period] ?? it.period}${it.reached_at ? ` · ${words.reached}` : ""}`;
    return make("li", "", make("div", "name", `${it.title} (${it.goal})`), bar, make("div", "facts", stands),
      menu(act(words.edit, () => editGoal(it), "plain"), destroy(words.delete, `${words.delete}: ${it.goal}`, [words.deletes_goal(it.goal)], async () => {
        await call("DELETE", `${feedPath(name)}/goals/${encodeURIComponent(it.goal)}`);
        notice(words.deleted(it.goal));
      })));
  }));
}

/** What can be done to something, behind a button that opens it. */
export function menu(...buttons) {
  const summary = make("summary", "", "⋯");
  summary.setAttribute("aria-label", words.edit);
  return make("details", "menu", summary, make("div", "acts", ...buttons));
}

function drawPolicy(now) {
  policy.replaceChildren(...Object.entries(now).flatMap(([field, value]) =>
    [make("dt", "", field), make("dd", "", typeof value === "object" ? JSON.stringify(value) : String(value))]));
}

function drawWaiting({ scheduled }, { review }) {
  list(lists.scheduled, scheduled.map(({ id, deliver_at, gift }) => make("li", "", ...giftLine(gift),
    make("div", "facts", link(id, screen("gift", [], { feed: name, id })), make("span", "", `${words.shown_at} `, since(deliver_at))),
    menu(destroy(words.cancel_gift, `${words.cancel_gift}: ${id}`, [words.cancels(id)], () => call("DELETE", `${feedPath(name)}/scheduled?${new URLSearchParams({ id })}`))))));
  list(lists.review, review.map(({ id, expires_at, gift }) => make("li", "", ...giftLine(gift),
    make("div", "facts", link(id, screen("gift", [], { feed: name, id })), make("span", "", `${words.expires} `, since(expires_at)), link(words.desk, `desk/${encodeURIComponent(name)}`)))));
}

function drawDrops({ drops }) {
  list(lists.drops, drops.map((it) => make("li", "", make("div", "name", `${it.gift.name} (${it.drop}) `, make("span", "badge", it.state)),
    make("div", "facts", words.sold(number(it.sold), number(it.held), number(it.free), number(it.total)), it.value ? format.money(it.value) : ""),
    menu(act(words.edit, () => editDrop(it), "plain")))));
}

function drawBlocks({ blocks }) {
  list(lists.blocks, blocks.map(({ user, at, until }) => make("li", "", make("span", "name", user), " ", since(at),
    until ? fact(` · ${words.until}`, format.moment(until)) : "",
    menu(destroy(words.unblock, `${words.unblock}: ${user}`, [words.unblocks(user)], () => call("DELETE", `${feedPath(name)}/blocks?${new URLSearchParams({ user })}`))))));
}

// ---------------------------------------------------------------- what is changed

async function editPolicy() {
  const path = `${feedPath(name)}/policy`;
  await edit({
    title: `${words.policy}: ${name}`, method: "PATCH", path: "/v1/feeds/{feed}/policy", before: await call("GET", path), part: true, effects: words.effects,
    save: async (changes) => {
      drawPolicy(await call("PATCH", path, changes));
      notice(words.saved(words.policy));
    },
  });
}

async function beginSession() {
  const id = field(`${words.session} (${words.id})`, "id", { maxLength: 64 });
  await ask({
    title: words.new_session, body: [make("p", "", words.begin_session(name)), id], yes: words.new_session, danger: true,
    agree: async () => {
      const given = id.querySelector("input").value.trim();
      await call("POST", `${feedPath(name)}/session`, given ? { id: given } : {});
      notice(words.saved(words.session));
    },
  });
}

/** Creates or changes what is named by its path: a goal, or a drop. */
const editNamed = (kind, called, created) => (before) => edit({
  title: before ? `${called}: ${before[kind]}` : created, method: "PUT", path: `/v1/feeds/{feed}/${kind}s/{${kind}}`, before, named: before ? "" : words.name,
  save: async (value, given) => {
    const id = before?.[kind] ?? given;
    await call("PUT", `${feedPath(name)}/${kind}s/${encodeURIComponent(id)}`, value);
    notice(words.saved(id));
  },
});
const editGoal = editNamed("goal", words.goal, words.new_goal);
const editDrop = editNamed("drop", words.drop, words.new_drop);

const blockUser = () => edit({
  title: words.block, method: "PUT", path: "/v1/feeds/{feed}/blocks/{user}", named: words.user,
  save: async (value, user) => {
    await call("PUT", `${feedPath(name)}/blocks?${new URLSearchParams({ user })}`, value);
    notice(words.saved(user));
  },
});

export const feed = {
  every: 5_000,
  open({ parts }) {
    [, name] = parts;
    build();
    heading.textContent = name;
    links.replaceChildren(link(words.desk, `desk/${encodeURIComponent(name)}`), link(words.overlay, `overlay/${encodeURIComponent(name)}`),
      link(words.ledger, screen("ledger", [name])), link(words.gift, screen("gift", [], { feed: name })),
      link(words.sources, screen("sources", [name])), link(words.webhooks, screen("readers", [], { show: name })));
    for (const element of [...Object.values(lists), policy, totals, presence]) element.replaceChildren();
    connection = connect({ url: HOME, feed: name, key: key.value || undefined, onChange: drawLive });
  },
  async look(current) {
    const path = feedPath(name);
    // The list itself says whether the feed is damaged.
    await call("GET", path);
    const all = await Promise.all(["policy", "scheduled?limit=100", "review", "drops", "blocks", "presence"].map((it) => call("GET", `${path}/${it}`)));
    if (!current()) return;
    const [now, scheduled, review, drops, blocks, { watchers, overlays, nodes }] = all;
    drawPolicy(now);
    unlessOpen([lists.scheduled, lists.review], () => drawWaiting(scheduled, review));
    unlessOpen([lists.drops], () => drawDrops(drops));
    unlessOpen([lists.blocks], () => drawBlocks(blocks));
    presence.textContent = words.present(number(watchers), number(overlays), number(nodes));
  },
  close() {
    connection?.close();
    connection = null;
  },
};

/** Draws, unless somebody has a menu open in there, which would close under the hand. */
function unlessOpen(elements, draw) {
  if (!elements.some((element) => element.querySelector("details[open]"))) draw();
}
