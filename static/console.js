// The console: is everything well, which feeds there are, where a gift is, webhooks and groups, and dead letters to send again.

import { $, HOME, Key, lang, make, state } from "./keyed.js";

/** How often the overview and the nodes are looked at, and how often feeds, in milliseconds. */
const EVERY = 2_000;
const FEEDS_EVERY = 5_000;

/** Feeds of one page. */
const PAGE = 100;

const SAID = {
  en: {
    live: "live", away: "no answer from the gateway", wrong: "This key may not observe, or is none.", none: "none", more: "and more …",
    watchers: "watchers", rate: (n) => `${n}/s`, lag: "lag", pending: "pending", oldest: "oldest", dead: "dead",
    lost: "lost", active: "active", disabled: "disabled", since: "failing since", batches: "batches of",
    attempts: (n) => (n === "1" ? "1 attempt" : `${n} attempts`), replay: "Send again", all: "Send all again", died: "died",
    replayed: (n) => `${n} sent again.`, group: "group", webhook: "webhook", every: "all feeds",
    drops: (age) => `drops what is older than ${age}`,
    well: "Everything is well.", not_well: (n) => (n === 1 ? "1 thing needs you." : `${n} things need you.`),
    columns: ["Node", "Version", "Up", "Watchers", "Feeds", "Gifts/s", "Deliveries/s", "Publish p99", "Memory", "CPU"],
    not_ready: (node, why) => `${node} is not ready: ${why}`, notes: (node, why) => `${node}: ${why}`,
    is_disabled: (name) => `Webhook ${name} is disabled. Repair its endpoint, then set it again.`,
    is_failing: (name, since, why) => `Webhook ${name} has failed since ${since}: ${why}`,
    has_dead: (n) => `${n} dead letters wait below: remove the cause, then send them again.`,
    has_lost: (name, n) => `Group ${name} lost ${n} entries that were cut before it had acknowledged them.`,
    rows: "rows", private: "private", damaged: "damaged: it answers 503 until it is restored", changed: "changed", ago: (age) => `${age} ago`,
    desk: "desk", try: "Send a test", tried: (name, what) => `${name}: ${what}`, attempts_of: "Attempts", shown_at: "shown at",
    unknown: "No gift of this id is known there.", story: (id, what) => `${id}: ${what}`, row: "row", taken: "taken", entry: "entry", reader: "reader",
  },
  zh: {
    live: "已连接", away: "网关没有响应", wrong: "此密钥无效或没有 observe 权限。", none: "无", more: "还有更多…",
    watchers: "观看人数", rate: (n) => `${n}/秒`, lag: "未取", pending: "处理中", oldest: "最早", dead: "死信",
    lost: "丢失", active: "运行中", disabled: "已停用", since: "失败开始于", batches: "每批最多",
    attempts: (n) => `${n} 次尝试`, replay: "重新发送", all: "全部重新发送", died: "失败于",
    replayed: (n) => `已重新发送 ${n} 条。`, group: "消费组", webhook: "Webhook", every: "所有频道",
    drops: (age) => `丢弃早于 ${age} 的条目`,
    well: "一切正常。", not_well: (n) => `有 ${n} 件事需要处理。`,
    columns: ["节点", "版本", "运行", "观看人数", "频道", "礼物/秒", "推送/秒", "写入 p99", "内存", "CPU"],
    not_ready: (node, why) => `${node} 未就绪：${why}`, notes: (node, why) => `${node}：${why}`,
    is_disabled: (name) => `Webhook ${name} 已停用。修复其端点后请重新设置。`,
    is_failing: (name, since, why) => `Webhook ${name} 自 ${since} 起失败：${why}`,
    has_dead: (n) => `下方有 ${n} 条死信：排除原因后重新发送。`,
    has_lost: (name, n) => `消费组 ${name} 丢失了 ${n} 条未确认的条目。`,
    rows: "行", private: "私有", damaged: "已损坏：恢复前回答 503", changed: "变化", ago: (age) => `${age}前`,
    desk: "主播台", try: "发送测试", tried: (name, what) => `${name}：${what}`, attempts_of: "尝试记录", shown_at: "展示于",
    unknown: "那里没有此 ID 的礼物。", story: (id, what) => `${id}：${what}`, row: "行", taken: "收到", entry: "条目", reader: "读者",
  },
};

const said = SAID[lang];
const units = new Intl.NumberFormat(lang, { maximumFractionDigits: 1 });
const key = new Key("tipcast-admin-key");
const bytes = new Intl.NumberFormat(lang, { style: "unit", unit: "megabyte", maximumFractionDigits: 0 });
/** When, and at which position, each feed was seen last. */
let before = { at: 0, feeds: new Map() };
/** What is running or comes next; a later look makes it void. */
let turn = 0;

// ---------------------------------------------------------------- what is shown

function time(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? text : at.toLocaleString(lang);
}

function age(ms) {
  const steps = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1_000, "s"]];
  const [size, unit] = steps.find(([size]) => ms >= size) ?? [1, "ms"];
  return `${units.format(ms / size)} ${unit}`;
}

function fact(name, value, bad = false) {
  return make("span", bad ? "bad" : "", `${name} ${value}`);
}

function show(id, items, more) {
  const all = items.length ? items : [make("li", "quiet", said.none)];
  if (more) all.push(make("li", "quiet", said.more));
  $(id).querySelector("ul").replaceChildren(...all);
}

/** A time as how long ago it was, with the whole of it on hover. */
function since(text) {
  const element = make("time", "", said.ago(age(Math.max(0, Date.now() - Date.parse(text)))));
  element.dateTime = text;
  element.title = time(text);
  return element;
}

function link(text, href) {
  const element = make("a", "", text);
  element.href = href;
  return element;
}

function feedItem({ feed, watchers, rows, epoch, seq, visibility, last_at, damaged }, seconds) {
  const known = before.feeds.get(feed);
  const moved = known?.epoch === epoch && seconds > 0 ? Math.max(0, seq - known.seq) / seconds : undefined;
  const facts = [fact(said.watchers, units.format(watchers)),
    make("span", "rate", moved === undefined ? "–" : said.rate(units.format(moved))), fact(said.rows, units.format(rows))];
  if (visibility === "private") facts.push(make("span", "", said.private));
  if (last_at) facts.push(make("span", "", `${said.changed} `, since(last_at)));
  if (damaged) facts.push(make("span", "bad", said.damaged));
  facts.push(link(said.desk, `desk/${encodeURIComponent(feed)}`));
  return make("li", "", make("div", "name", feed), make("div", "facts", ...facts));
}

function nodeRow({ node, version, started_at, watchers, feeds, gifts_per_second, deliveries_per_second, p99_ms, rss_bytes, cpu, ready }) {
  const up = make("td", "", age(Math.max(0, Date.now() - Date.parse(started_at))));
  up.title = time(started_at);
  const cells = [make("td", ready ? "name" : "name bad", node), make("td", "", version), up];
  const numbers = [watchers, feeds, gifts_per_second, deliveries_per_second].map((n) => units.format(n));
  for (const text of [...numbers, `${units.format(p99_ms)} ms`, bytes.format(rss_bytes / 1e6), units.format(cpu)]) cells.push(make("td", "number", text));
  // On a phone each value has its name beside it.
  cells.forEach((cell, n) => n > 0 && (cell.dataset.name = said.columns[n]));
  return make("tr", "", ...cells);
}

/** What is wrong now, and what to do about it. */
function troubles(nodes, { webhooks, groups, dead }) {
  const all = [];
  for (const { node, ready, detail } of nodes) {
    if (!ready) all.push(said.not_ready(node, detail ?? ""));
    else if (detail) all.push(said.notes(node, detail));
  }
  for (const it of webhooks) {
    const name = `${it.feed} / ${it.webhook}`;
    if (it.state !== "active") all.push(said.is_disabled(name));
    else if (it.failing_since) all.push(said.is_failing(name, time(it.failing_since), it.last_error ?? ""));
  }
  for (const { feed, group, lost } of groups) if (lost > 0) all.push(said.has_lost(`${feed} / ${group}`, units.format(lost)));
  if (dead.length) all.push(said.has_dead(units.format(dead.length)));
  return all;
}

function drawHealth(nodes, overview) {
  const all = troubles(nodes, overview);
  $("verdict").textContent = all.length ? said.not_well(all.length) : said.well;
  $("verdict").className = all.length ? "bad" : "good";
  $("troubles").replaceChildren(...all.map((text) => make("li", "", text)));
  $("nodes").tHead.replaceChildren(make("tr", "", ...said.columns.map((name) => make("th", "", name))));
  $("nodes").tBodies[0].replaceChildren(...nodes.map(nodeRow));
}

function groupItem({ feed, group, lag, pending, oldest_ms, dead, lost }) {
  return make("li", "", make("div", "name", `${feed} / ${group}`), make("div", "facts",
    fact(said.lag, units.format(lag)), fact(said.pending, units.format(pending)), fact(said.oldest, age(oldest_ms)),
    fact(said.dead, units.format(dead), dead > 0), fact(said.lost, units.format(lost), lost > 0)));
}

function webhookItem(it) {
  const bad = it.state !== "active";
  const facts = [fact(said.batches, units.format(it.batch_max))];
  if (it.max_age_ms > 0) facts.push(make("span", "", said.drops(age(it.max_age_ms))));
  if (it.failing_since) facts.push(fact(said.since, time(it.failing_since), true));
  const item = make("li", "", make("div", "name", `${it.feed} / ${it.webhook} `,
    make("span", bad ? "badge bad" : "badge", said[it.state] ?? it.state)),
    make("div", "note quiet", it.url), make("div", "facts", ...facts));
  if (it.last_error) item.append(make("div", "note bad", `${time(it.last_error_at)}: ${it.last_error}`));
  const path = `/v1/feeds/${encodeURIComponent(it.feed)}/webhooks/${encodeURIComponent(it.webhook)}`;
  const name = `${it.feed} / ${it.webhook}`;
  item.append(make("div", "acts", act(said.try, () => tryWebhook(name, path)), act(said.attempts_of, () => showAttempts(name, path))));
  return item;
}

/** Whose letter it is, as the path of its API. */
function box({ scope, group, webhook }) {
  const of = group === undefined ? `webhooks/${encodeURIComponent(webhook)}` : `groups/${encodeURIComponent(group)}`;
  return `/v1/feeds/${encodeURIComponent(scope)}/${of}/dead/replay`;
}

/** What came back from an endpoint, in a line. */
function cameBack({ at, status, ms, error, response, entries }) {
  const what = error ?? `${status}`;
  return `${time(at)} · ×${units.format(entries)} · ${what} · ${units.format(ms)} ms${response ? ` · ${response}` : ""}`;
}

async function tryWebhook(name, path) {
  $("tried").textContent = said.tried(name, cameBack(await key.call("POST", `${path}/test`)));
}

async function showAttempts(name, path) {
  const { attempts } = await key.call("GET", `${path}/attempts`);
  $("tried").textContent = attempts.length ? attempts.map((it) => said.tried(name, cameBack(it))).join("\n") : said.tried(name, said.none);
}

/** A button that rests while its deed is under way, and shows why it was refused. */
function act(text, deed) {
  const button = make("button", "", text);
  button.type = "button";
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await deed();
    } catch (error) {
      $("tried").textContent = error.message;
    }
    button.disabled = false;
  });
  return button;
}

function replayButton(text, path, body) {
  const button = make("button", "", text);
  button.type = "button";
  button.addEventListener("click", () => replay(button, path, body));
  return button;
}

function letterItem(letter) {
  const { id, feed, reason, died_at, attempts, entry } = letter;
  const gift = entry.gift ?? {};
  const what = gift.user ? `${gift.user.name} → ${gift.gift.name} ×${units.format(entry.delta.count)}` : entry.type;
  const item = make("li", "letter", make("div", "", make("div", "name", what), make("div", "note bad", reason),
    make("div", "facts", make("span", "", `${feed} · ${gift.id ?? id}`), make("span", "", said.attempts(units.format(attempts))),
      fact(said.died, time(died_at)))), replayButton(said.replay, box(letter), { ids: [id] }));
  item.dataset.id = id;
  return item;
}

function letters(dead) {
  const boxes = new Map();
  for (const letter of dead) boxes.set(box(letter), [...(boxes.get(box(letter)) ?? []), letter]);
  return [...boxes].flatMap(([path, all]) => {
    const { scope, group, webhook } = all[0];
    const whose = `${scope === "*" ? said.every : scope} / ${group === undefined ? said.webhook : said.group} ${group ?? webhook}`;
    return [make("li", "head", make("span", "note", whose), replayButton(said.all, path, {})), ...all.map(letterItem)];
  });
}

/** What the dead letters looked like: they are drawn anew only when they are others, so that a button stays. */
let drawn = "";

/** What webhooks looked like. */
let hooks = "";

function draw(nodes, overview) {
  const { groups, webhooks, dead, more } = overview;
  drawHealth(nodes, overview);
  show("groups", groups.map(groupItem), more.groups);
  const now = JSON.stringify([webhooks, more.webhooks]);
  if (now !== hooks) show("webhooks", webhooks.map(webhookItem), more.webhooks);
  hooks = now;
  const looks = JSON.stringify([dead, more.dead]);
  if (looks !== drawn) show("dead", letters(dead), more.dead);
  drawn = looks;
}

/** Three lines that send a gift and put the feed on a page, for who has none yet. */
const FIRST = `curl ${HOME}v1/feeds/show/gifts -H 'Content-Type: application/json' \\
  -d '{"user":{"id":"u-1","name":"Mia"},"gift":{"id":"rose","name":"Rose"}}'
<script type="module" src="${HOME}static/tipcast.js"></script> <tipcast-ticker feed="show"></tipcast-ticker>`;

function drawFeeds(feeds, next, prefix) {
  const at = Date.now();
  show("feeds", feeds.map((it) => feedItem(it, (at - before.at) / 1_000)), false);
  before = { at, feeds: new Map(feeds.map((it) => [it.feed, it])) };
  $("more-feeds").hidden = !next;
  $("first").hidden = feeds.length > 0 || prefix !== "";
  $("first").querySelector("code").textContent = FIRST;
}

// ---------------------------------------------------------------- what is done

async function replay(button, path, body) {
  button.disabled = true;
  $("answer").className = "";
  try {
    const { replayed } = await key.call("POST", path, body);
    $("answer").textContent = said.replayed(units.format(replayed));
    drawn = "";
  } catch (error) {
    $("answer").className = "bad";
    $("answer").textContent = error.message;
    button.disabled = false;
  }
}

async function look() {
  const mine = ++turn;
  try {
    const [overview, { nodes }] = await Promise.all([key.call("GET", "/v1/admin/overview"), key.call("GET", "/v1/nodes")]);
    if (mine !== turn) return;
    draw(nodes, overview);
    key.show(true);
    state("live", said.live);
    if (Date.now() - looked >= FEEDS_EVERY) await lookAtFeeds();
  } catch (error) {
    if (mine !== turn) return;
    if (error.status === 401 || error.status === 403) {
      key.refused(said.wrong);
      return;
    }
    state("away", error.status ? error.message : said.away);
  }
  setTimeout(() => mine === turn && look(), EVERY);
}

/** When feeds were looked at, how many pages of them are shown, and which look is the newest. */
let looked = 0;
let pages = 1;
let search = 0;

/** Reads the feeds that are shown, from the first on. */
async function lookAtFeeds() {
  const mine = ++search;
  looked = Date.now();
  const prefix = $("prefix").value;
  const all = [];
  let next = "";
  for (let n = 0; n < pages && next !== undefined; n += 1) {
    const query = new URLSearchParams({ prefix, limit: PAGE, ...(next && { after: next }) });
    const page = await key.call("GET", `/v1/feeds?${query}`);
    all.push(...page.feeds);
    next = page.next;
  }
  if (mine === search) drawFeeds(all, next, prefix);
}

$("search").addEventListener("submit", (event) => event.preventDefault());
$("prefix").addEventListener("input", () => {
  pages = 1;
  if ($("prefix").checkValidity()) lookAtFeeds().catch((error) => state("away", error.message));
});
$("more-feeds").addEventListener("click", () => {
  pages += 1;
  lookAtFeeds().catch((error) => state("away", error.message));
});

// ---------------------------------------------------------------- where a gift is

/** The life of a gift, the oldest first. */
function storyItems({ status, at, deliver_at, row, entries, readers }) {
  const items = [[at, `${said.taken}: ${status}${row ? ` · ${said.row} ${row}` : ""}`]];
  for (const it of entries) items.push([it.at, `${said.entry} ${it.cursor}: ${it.type}`]);
  if (deliver_at) items.push([deliver_at, said.shown_at]);
  items.sort(([a], [b]) => Date.parse(a) - Date.parse(b));
  const lines = items.map(([when, text]) => make("li", "", since(when), ` ${text}`));
  for (const { kind, name, state: stands, attempts, last_error } of readers) {
    const tries = attempts === undefined ? "" : ` · ${said.attempts(units.format(attempts))}`;
    lines.push(make("li", stands === "dead" || stands === "lost" ? "bad" : "", `${said[kind] ?? kind} ${name}: ${stands}${tries}${last_error ? ` · ${last_error}` : ""}`));
  }
  return lines;
}

$("find").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { feed, id } = Object.fromEntries(new FormData($("find")));
  $("story").replaceChildren();
  $("found").className = "";
  try {
    const story = await key.call("GET", `/v1/feeds/${encodeURIComponent(feed.trim())}/gifts/${encodeURIComponent(id.trim())}`);
    $("found").textContent = said.story(story.id, story.status);
    $("story").replaceChildren(...storyItems(story));
  } catch (error) {
    $("found").className = "bad";
    $("found").textContent = error.status === 404 ? said.unknown : error.message;
  }
});

key.guard(look, () => (turn += 1));
