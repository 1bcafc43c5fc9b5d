// The page of those who look after reports: feeds, groups, webhooks, and dead letters to send again.

import { $, Key, lang, make, state } from "./keyed.js";

/** How often it looks, in milliseconds. */
const EVERY = 2_000;

const SAID = {
  en: {
    live: "live", away: "no answer from the gateway", wrong: "This is no admin key.", none: "none", more: "and more …",
    watchers: "watchers", rate: (n) => `${n}/s`, lag: "lag", pending: "pending", oldest: "oldest", dead: "dead",
    lost: "lost", active: "active", disabled: "disabled", since: "failing since", batches: "batches of",
    attempts: (n) => (n === "1" ? "1 attempt" : `${n} attempts`), replay: "Send again", all: "Send all again", died: "died",
    replayed: (n) => `${n} sent again.`, group: "group", webhook: "webhook", every: "all feeds",
    drops: (age) => `drops what is older than ${age}`,
  },
  zh: {
    live: "已连接", away: "网关没有响应", wrong: "这不是有效的管理密钥。", none: "无", more: "还有更多…",
    watchers: "观看人数", rate: (n) => `${n}/秒`, lag: "未取", pending: "处理中", oldest: "最早", dead: "死信",
    lost: "丢失", active: "运行中", disabled: "已停用", since: "失败开始于", batches: "每批最多",
    attempts: (n) => `${n} 次尝试`, replay: "重新发送", all: "全部重新发送", died: "失败于",
    replayed: (n) => `已重新发送 ${n} 条。`, group: "消费组", webhook: "Webhook", every: "所有频道",
    drops: (age) => `丢弃早于 ${age} 的条目`,
  },
};

const said = SAID[lang];
const units = new Intl.NumberFormat(lang, { maximumFractionDigits: 1 });
const key = new Key("tipcast-admin-key");
/** When, by the gateway's clock, and at which position each feed was seen last. */
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

function feedItem({ feed, watchers, everywhere, epoch, seq }, seconds) {
  const known = before.feeds.get(feed);
  const moved = known?.epoch === epoch && seconds > 0 ? Math.max(0, seq - known.seq) / seconds : undefined;
  // Other nodes publish what they have every two seconds: it may be behind what is here.
  const count = everywhere > watchers ? `${units.format(watchers)} / ${units.format(everywhere)}` : units.format(watchers);
  return make("li", "", make("div", "name", feed), make("div", "facts",
    fact(said.watchers, count), make("span", "rate", moved === undefined ? "–" : said.rate(units.format(moved)))));
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
  return item;
}

/** Whose letter it is, as the path of its API. */
function box({ scope, group, webhook }) {
  const of = group === undefined ? `webhooks/${encodeURIComponent(webhook)}` : `groups/${encodeURIComponent(group)}`;
  return `/v1/feeds/${encodeURIComponent(scope)}/${of}/dead/replay`;
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

function draw({ server_time, feeds, groups, webhooks, dead, more }) {
  const at = Date.parse(server_time);
  show("feeds", feeds.map((it) => feedItem(it, (at - before.at) / 1_000)), more.feeds);
  // An overview that was made for somebody else just before is the same one again.
  if (at > before.at) before = { at, feeds: new Map(feeds.map((it) => [it.feed, it])) };
  show("groups", groups.map(groupItem), more.groups);
  show("webhooks", webhooks.map(webhookItem), more.webhooks);
  const looks = JSON.stringify([dead, more.dead]);
  if (looks !== drawn) show("dead", letters(dead), more.dead);
  drawn = looks;
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
    const overview = await key.call("GET", "/v1/admin/overview");
    if (mine !== turn) return;
    draw(overview);
    key.show(true);
    state("live", said.live);
  } catch (error) {
    if (mine !== turn) return;
    if (error.status === 401) {
      key.refused(said.wrong);
      return;
    }
    state("away", error.status ? error.message : said.away);
  }
  setTimeout(() => mine === turn && look(), EVERY);
}

key.guard(look, () => (turn += 1));
