// The host's desk: what waits for a decision, what is on air, and what overlays do. Everything is read from and
// said to the API with the host's key; a stranger's text only ever becomes textContent.

import { connect } from "./connect.js";
import { Format } from "./format.js";
import { $, HOME, Key, lang, make, state as show } from "./keyed.js";

/** How often it asks what waits, in milliseconds; and what changes more seldom. */
const EVERY = 1_000;
const SELDOM = 5_000;
/** How long a decision can be undone before it is sent, in milliseconds. */
const UNDO = 3_000;
/** What is pressed again within this is the same press, in milliseconds: of the mouse or a finger, and of a key. */
const ECHO = 600;
const KEY_ECHO = 250;
/** With less time than this left on its clock a decision is sent at once, in milliseconds. */
const NO_TIME = 6_000;

const SAID = {
  en: {
    live: "live", away: "no answer – trying again", wrong: "This key may not moderate this feed.",
    approve: "Approve", mask: "Mask", deny: "Deny", undo: "Undo", pause: "Pause alerts", resume: "Resume alerts",
    skip: "Skip alert", mute: "Mute", unmute: "Unmute", replay: "Replay", retract: "Take back", block: "Block user",
    unblock: "Unblock", watchers: (n) => (n === "1" ? "1 watches" : `${n} watch`), overlays: (n) => (n === "0" ? "no overlay is connected" : n === "1" ? "1 overlay" : `${n} overlays`), left: (s) => `${s} s`,
    did: { approve: (who) => `Approve: ${who}`, mask: (who) => `Mask: ${who}`, deny: (who) => `Deny: ${who}` },
    decided: (what) => `Already decided: ${{ approve: "approved", mask: "masked", deny: "denied" }[what] ?? what}`,
    gone: "It does not wait any more.", blockedNow: (who) => `Blocked: ${who}`, unblockedNow: (who) => `Unblocked: ${who}`,
    taken: "Taken back", paused: "Alerts wait.", resumed: "Alerts go on.", skipped: "Skipped.", muted: "Muted.",
    unmuted: "Sound is on.", replayed: "Shown again.", test: "Test", until: (at) => `until ${at}`,
    never: "nothing came yet", last: (at) => `last ${at}`, refused: (why) => `refused: ${why}`, try: "Test …",
    sample: "Paste the body of a delivery. Nothing is shown.", check: "Check", gifts: "gifts", units: "units",
    gifters: "givers", points: "points", periods: { all: "all time", session: "session", day: "today", week: "this week", month: "this month" },
    anonymous: "anonymous", reached: "reached", unsent: "No answer. It may not have happened: try again.",
  },
  zh: {
    live: "已连接", away: "没有响应，正在重试", wrong: "此密钥无权管理该频道。",
    approve: "通过", mask: "隐藏文字", deny: "拒绝", undo: "撤销", pause: "暂停提示", resume: "继续提示",
    skip: "跳过提示", mute: "静音", unmute: "取消静音", replay: "重播", retract: "撤回", block: "屏蔽用户",
    unblock: "取消屏蔽", watchers: (n) => `${n} 人观看`, overlays: (n) => (n === "0" ? "没有连接叠加层" : `${n} 个叠加层`), left: (s) => `${s} 秒`,
    did: { approve: (who) => `通过：${who}`, mask: (who) => `隐藏文字：${who}`, deny: (who) => `拒绝：${who}` },
    decided: (what) => `已处理：${{ approve: "已通过", mask: "已隐藏文字", deny: "已拒绝" }[what] ?? what}`,
    gone: "已不在等待中。", blockedNow: (who) => `已屏蔽：${who}`, unblockedNow: (who) => `已取消屏蔽：${who}`,
    taken: "已撤回", paused: "提示已暂停。", resumed: "提示继续。", skipped: "已跳过。", muted: "已静音。",
    unmuted: "声音已打开。", replayed: "已重播。", test: "测试", until: (at) => `至 ${at}`,
    never: "还没有收到", last: (at) => `最近 ${at}`, refused: (why) => `被拒绝：${why}`, try: "测试…",
    sample: "粘贴一次推送的内容。不会显示任何礼物。", check: "检查", gifts: "礼物", units: "数量",
    gifters: "送礼人数", points: "积分", periods: { all: "全部", session: "本场", day: "今天", week: "本周", month: "本月" },
    anonymous: "匿名", reached: "已达成", unsent: "没有响应，可能未生效，请重试。",
  },
};

const said = SAID[lang];
const format = new Format(lang, lang === "zh" ? "刚刚" : "now");
const feed = document.body.dataset.feed;
const base = `/v1/feeds/${encodeURIComponent(feed)}`;

const key = new Key("tipcast-desk-key");
let connection = null;
/** What is running or comes next; another key makes it void. */
let turn = 0;
/** Gifts that wait, oldest first. */
let waiting = [];
/** Decisions that the feed has not confirmed yet, by gift id: `{id, action, who, timer}`. Who is in here is not acted on again. */
const pending = new Map();
/** Gifts about which this desk has decided: they never come back on screen. */
const decided = new Set();
/** What was done last and can be undone: a function, or nothing. */
let undoLast = null;
let selected = null;
/** The newest number of watchers. */
let present = {};

const call = (...what) => key.call(...what);
const state = (name) => show(name, said[name] ?? "…");

/** Where and when something was pressed last. */
let pressed = { at: -Infinity, x: 0, y: 0, on: null };

/** Whether this is the second half of a double click: what it hits now may have moved there since the first half. */
function isEcho({ clientX, clientY, detail, currentTarget }) {
  const before = pressed;
  pressed = { at: performance.now(), x: clientX, y: clientY, on: currentTarget };
  if (pressed.at - before.at > ECHO) return false;
  const near = Math.hypot(clientX - before.x, clientY - before.y) < 24;
  return detail === 0 ? before.on === currentTarget : near;
}

/** A button that acts once at a time, however fast it is pressed. */
function button(text, className, act) {
  const element = make("button", className, text);
  element.type = "button";
  element.addEventListener("click", (event) => isEcho(event) || once(element, act));
  return element;
}

async function once(element, act) {
  if (element.dataset.busy) return;
  element.dataset.busy = "true";
  try {
    await act();
  } catch (error) {
    tell(error.status ? error.message : said.unsent);
  } finally {
    delete element.dataset.busy;
  }
}

function tell(text, undo = null) {
  $("told").textContent = text;
  undoLast = undo;
  $("undo").hidden = !undo;
}

const now = () => connection?.serverTime() ?? Date.now();

// ---------------------------------------------------------------- what waits

function nameOf({ user }) {
  return user?.name ?? "?";
}

/** What a gift is, in one line. */
function facts({ gift, count, value, test }) {
  const parts = [`${gift?.name ?? "?"} ×${format.count(count ?? 1)}`];
  if (value) parts.push(format.money(value));
  if (test) parts.push(said.test);
  return parts.join(" · ");
}

/** Elements of what waits, by gift id, so that a list that is read anew moves nothing and loses no focus. */
const cards = new Map();

function cardOf(it) {
  const known = cards.get(it.id);
  if (known) return known;
  const clock = make("span", "clock");
  const actions = make("div", "actions");
  for (const [action, className, shortcut] of [["approve", "yes", "A"], ["mask", "", "M"], ["deny", "no", "D"]]) {
    const one = button(said[action], className, () => decide(it.id, action));
    one.append(make("kbd", "", shortcut));
    one.dataset.action = action;
    one.setAttribute("aria-label", `${said[action]}: ${nameOf(it.gift)}`);
    actions.append(one);
  }
  const card = make("li", "",
    make("div", "who", make("span", "name", nameOf(it.gift)), clock),
    make("div", "quiet", facts(it.gift)));
  if (it.gift.message) card.append(make("p", "words", it.gift.message));
  card.append(actions);
  card.dataset.id = it.id;
  card.addEventListener("pointerdown", () => select(it.id));
  cards.set(it.id, card);
  return card;
}

function drawWaiting() {
  const shown = waiting.filter((it) => !decided.has(it.id));
  const list = $("waiting").querySelector("ol");
  const wanted = shown.map(cardOf);
  for (const [id, card] of cards) if (!shown.some((it) => it.id === id)) {
    card.remove();
    cards.delete(id);
  }
  wanted.forEach((card, n) => {
    if (list.children[n] !== card) list.insertBefore(card, list.children[n] ?? null);
    const sent = pending.has(card.dataset.id);
    card.dataset.sent = sent;
    for (const one of card.querySelectorAll("button")) one.disabled = sent;
  });
  const open = shown.filter((it) => !pending.has(it.id));
  if (!open.some((it) => it.id === selected)) selected = open[0]?.id ?? null;
  for (const [id, card] of cards) card.setAttribute("aria-current", String(id === selected));
  $("waiting-count").textContent = format.number(open.length);
  $("waiting-count").dataset.some = open.length > 0;
  $("waiting-none").hidden = shown.length > 0;
  document.title = `${open.length ? `(${open.length}) ` : ""}${feed} · Tipcast`;
  tick();
}

/** The clock on each gift that waits, and how long ago each row was. */
function tick() {
  for (const time of $("live").querySelectorAll("time")) time.textContent = format.ago(now() - Date.parse(time.dateTime));
  for (const it of waiting) {
    const clock = cards.get(it.id)?.querySelector(".clock");
    if (!clock) continue;
    const left = Math.max(0, Math.ceil((Date.parse(it.expires_at) - now()) / 1000));
    clock.textContent = said.left(format.number(left));
    clock.dataset.soon = left <= 10;
  }
}

function select(id) {
  selected = id;
  for (const [known, card] of cards) card.setAttribute("aria-current", String(known === id));
  cards.get(id)?.scrollIntoView?.({ block: "nearest" });
}

function move(step) {
  const open = waiting.filter((it) => !decided.has(it.id) && !pending.has(it.id));
  const at = open.findIndex((it) => it.id === selected);
  const next = open[Math.min(Math.max(at + step, 0), open.length - 1)];
  if (next) select(next.id);
}

/** Decides, with some seconds to undo it. A gift that is decided about is not decided about again. */
function decide(id, action) {
  const it = waiting.find((one) => one.id === id);
  if (!it || pending.has(id) || decided.has(id)) return;
  const left = Date.parse(it.expires_at) - now();
  const entry = { id, action, timer: null, sending: false };
  pending.set(id, entry);
  entry.timer = setTimeout(send, left < NO_TIME ? 0 : UNDO, entry);
  tell(said.did[action](nameOf(it.gift)), () => {
    if (entry.sending) return;
    clearTimeout(entry.timer);
    pending.delete(id);
    selected = id;
    tell("");
    drawWaiting();
  });
  drawWaiting();
}

/** Sends a decision until the gateway has it: the same decision twice is the same answer. */
async function send(entry) {
  if (!entry.sending && $("undo").hidden === false && [...pending.keys()].pop() === entry.id) tell($("told").textContent);
  entry.sending = true;
  try {
    await call("POST", `${base}/review?id=${encodeURIComponent(entry.id)}`, { action: entry.action });
  } catch (error) {
    if (error.status === 409) tell(said.decided(error.problem.decision));
    else if (error.status === 404) tell(said.gone);
    else if (!error.status || error.status >= 500 || error.status === 429) {
      state("away");
      entry.timer = setTimeout(send, EVERY, entry);
      return;
    } else {
      tell(error.message);
      pending.delete(entry.id);
      drawWaiting();
      return;
    }
  }
  decided.add(entry.id);
  pending.delete(entry.id);
  drawWaiting();
}

// A tab that goes takes no decision along.
addEventListener("pagehide", () => {
  for (const entry of pending.values()) {
    clearTimeout(entry.timer);
    void call("POST", `${base}/review?id=${encodeURIComponent(entry.id)}`, { action: entry.action }, { keepalive: true }).catch(() => {});
  }
});

// ---------------------------------------------------------------- what is on air

const rows = new Map();

function rowOf(row) {
  const known = rows.get(row.row);
  if (known?.rev === row.rev) return known.element;
  const time = make("time", "quiet", format.ago(now() - Date.parse(row.updated_at)));
  time.dateTime = row.updated_at;
  time.title = format.moment(row.updated_at);
  const line = make("div", "line", make("span", "name", nameOf(row)), make("span", "quiet", facts(row)), time);
  const element = make("li", "", line);
  if (row.message) element.append(make("p", "words", row.message));
  const named = (text, act, className = "") => {
    const one = button(text, className, act);
    one.setAttribute("aria-label", `${text}: ${nameOf(row)}`);
    return one;
  };
  // They are seen at the row that somebody points at or is in, and always where there is nothing to point with.
  line.append(make("div", "actions",
    named(said.replay, async () => {
      await call("POST", `${base}/control`, { action: "replay", row: row.row });
      tell(said.replayed);
    }),
    named(said.retract, async () => {
      await call("DELETE", `${base}/rows/${encodeURIComponent(row.row)}`).catch(ifGone);
      tell(said.taken);
    }, "no"),
    named(said.block, () => block(row.user), "no")));
  element.dataset.row = row.row;
  rows.set(row.row, { rev: row.rev, element });
  known?.element.replaceWith(element);
  return element;
}

function ifGone(error) {
  if (error.status !== 404) throw error;
}

/** What was drawn last, for a filter that changes. */
let shown = { rows: [] };

function draw(list) {
  shown = list;
  drawLive(list);
  drawNumbers(list);
}

// Not in format.js, which every page with a board carries and whose size is bounded.
const REAL = new Set(Intl.supportedValuesOf("currency"));

/** An amount of minor units in whole ones, as people type it. */
function whole({ amount, currency }) {
  if (!REAL.has(currency)) return amount;
  return amount / 10 ** new Intl.NumberFormat(lang, { style: "currency", currency }).resolvedOptions().maximumFractionDigits;
}

/** Whether a row is let through by what was typed: a part of a name, gift, message or id, and a least amount in whole money. */
function passes({ user, gift, message, row, value }) {
  const typed = $("row-search").value.trim().toLocaleLowerCase();
  const least = Number($("row-least").value);
  const texts = [user?.name, user?.id, gift?.name, message, row];
  return (!typed || texts.some((text) => text?.toLocaleLowerCase().includes(typed))) && (!least || (value && whole(value) >= least));
}

for (const id of ["row-search", "row-least"]) $(id).addEventListener("input", () => drawLive(shown));
$("filter").addEventListener("submit", (event) => event.preventDefault());

function drawLive({ rows: all, control }) {
  const list = $("live").querySelector("ol");
  const listed = all.filter(passes);
  listed.map(rowOf).forEach((element, n) => {
    if (list.children[n] !== element) list.insertBefore(element, list.children[n] ?? null);
  });
  const here = new Set(listed.map((row) => row.row));
  for (const [id, { element }] of rows) if (!here.has(id)) {
    element.remove();
    rows.delete(id);
  }
  $("live-none").hidden = listed.length > 0;
  press("pause", control?.paused, said.pause, said.resume);
  press("mute", control?.muted, said.mute, said.unmute);
}

function press(id, on, off, undo) {
  $(id).setAttribute("aria-pressed", String(Boolean(on)));
  if ($(id).firstChild?.nodeValue !== (on ? undo : off)) $(id).replaceChildren(on ? undo : off, make("kbd", "", $(id).getAttribute("aria-keyshortcuts").toUpperCase()));
}

async function control(action, done) {
  await call("POST", `${base}/control`, { action });
  tell(done);
}

const isPressed = (id) => $(id).getAttribute("aria-pressed") === "true";
const acts = {
  pause: () => (isPressed("pause") ? control("resume", said.resumed) : control("pause", said.paused)),
  mute: () => (isPressed("mute") ? control("unmute", said.unmuted) : control("mute", said.muted)),
  skip: () => control("skip", said.skipped),
  undo: () => undoLast?.(),
};
for (const [id, act] of Object.entries(acts)) $(id).addEventListener("click", (event) => isEcho(event) || once($(id), act));

// ---------------------------------------------------------------- who is blocked

async function block({ id, name }) {
  const path = `${base}/blocks?user=${encodeURIComponent(id)}`;
  await call("PUT", path, { retract: true });
  tell(said.blockedNow(name), async () => {
    await call("DELETE", path).catch(ifGone);
    tell(said.unblockedNow(name));
    await drawBlocks();
  });
  await drawBlocks();
}

async function drawBlocks() {
  const { blocks } = await call("GET", `${base}/blocks`);
  $("blocked").hidden = blocks.length === 0;
  $("blocked").querySelector("ul").replaceChildren(...blocks.map(({ user, until }) => {
    const item = make("li", "", make("span", "name", user));
    if (until) item.append(make("span", "quiet", said.until(format.moment(until))));
    item.append(button(said.unblock, "", async () => {
      await call("DELETE", `${base}/blocks?user=${encodeURIComponent(user)}`).catch(ifGone);
      tell(said.unblockedNow(user));
      await drawBlocks();
    }));
    return item;
  }));
}

// ---------------------------------------------------------------- totals, leaders, goals; sources

/** Totals, leaders and goals as the feed's own snapshots and changes have them; a feed that counts nothing has none. */
function drawNumbers({ totals, goals }) {
  const periods = Object.entries(totals ?? {}).filter(([, it]) => it);
  $("numbers").hidden = periods.length === 0 && !goals?.length;
  const lines = periods.flatMap(([period, it]) => [
    make("dt", "", said.periods[period] ?? period),
    make("dd", "", [
      ...(it.values ?? []).map((value) => format.money(value)),
      it.points ? `${format.count(it.points)} ${said.points}` : "",
      `${format.count(it.gifts ?? 0)} ${said.gifts}`, `${format.count(it.units ?? 0)} ${said.units}`,
      `${format.count(it.gifters ?? 0)} ${said.gifters}`,
    ].filter(Boolean).join(" · ")),
  ]);
  $("totals").replaceChildren(...lines);
  $("goals").replaceChildren(...(goals ?? []).map(({ title, by, value, target, reached_at }) => {
    const bar = make("progress", "");
    bar.max = target;
    bar.value = Math.min(value ?? 0, target);
    bar.setAttribute("aria-label", title);
    const count = `${format.amount(by, value ?? 0)} / ${format.amount(by, target)}${reached_at ? ` · ${said.reached}` : ""}`;
    return make("div", "", make("div", "who", make("span", "name", title), make("span", "quiet", count)), bar);
  }));
  const boards = periods[0]?.[1].leaders ?? {};
  const by = ["points", "units"].find((measure) => boards[measure]) ?? Object.keys(boards)[0];
  $("leaders").replaceChildren(...(boards[by] ?? []).slice(0, 5).map(({ rank, user, score }) =>
    make("li", "", make("span", "name", `${rank}. ${user?.name ?? said.anonymous}`), make("span", "quiet", format.amount(by, score)))));
}

/** Sources whose test stands open: a list that is read anew leaves them alone. */
const sourceItems = new Map();

/** A key that may not see them is not asked again. */
let seesSources = true;

async function drawSources() {
  if (!seesSources) return;
  const answer = await call("GET", `${base}/sources`).catch((error) => {
    if (error.status !== 403) throw error;
    seesSources = false;
    return null;
  });
  $("sources").hidden = !answer?.sources?.length;
  const names = new Set();
  for (const { source, preset, last_at, last_error } of answer?.sources ?? []) {
    names.add(source);
    let item = sourceItems.get(source);
    if (!item) {
      item = { facts: make("span", "quiet"), error: make("span", "bad"), element: null };
      item.element = make("li", "", make("span", "name", `${source} · ${preset}`), item.facts, item.error,
        button(said.try, "", () => openTest(item.element, source)));
      sourceItems.set(source, item);
      $("sources").querySelector("ul").append(item.element);
    }
    item.facts.textContent = last_at ? said.last(format.moment(last_at)) : said.never;
    item.error.textContent = last_error ? said.refused(last_error) : "";
  }
  for (const [name, { element }] of sourceItems) if (!names.has(name)) {
    element.remove();
    sourceItems.delete(name);
  }
}

function openTest(element, source) {
  const open = element.querySelector("form");
  if (open) return open.remove();
  const body = make("textarea", "");
  body.setAttribute("aria-label", said.sample);
  body.placeholder = said.sample;
  body.spellcheck = false;
  const outcome = make("p", "quiet");
  outcome.setAttribute("role", "status");
  const form = make("form", "", body, make("button", "", said.check), outcome);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void once(form, async () => {
      const path = `${base}/sources/${encodeURIComponent(source)}/test`;
      // A sample that is refused says why, which is what was asked.
      const answer = await call("POST", path, body.value).catch((error) => error.problem ?? Promise.reject(error));
      outcome.textContent = answer.gift ? `${answer.outcome}: ${nameOf(answer.gift)} · ${facts(answer.gift)}` : [answer.outcome, answer.detail].filter(Boolean).join(": ");
    });
  });
  element.append(form);
  body.focus();
}

/** How many watch, and how many of them are overlays; what is not known yet is not shown. */
function drawPresence({ watchers, overlays = present.overlays }) {
  present = { watchers, overlays };
  $("watchers").textContent = [
    said.watchers(format.number(watchers)),
    overlays === undefined ? "" : said.overlays(format.number(overlays)),
  ].filter(Boolean).join(" · ");
}

async function countWatchers() {
  drawPresence(await call("GET", `${base}/presence`));
}

// ---------------------------------------------------------------- keys

let lastKey = { letter: "", at: -Infinity };

addEventListener("keydown", (event) => {
  const typing = event.target instanceof Element && event.target.closest("input, textarea, select");
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || typing || $("board").hidden) return;
  const letter = event.key.toLowerCase();
  const echo = letter === lastKey.letter && performance.now() - lastKey.at < KEY_ECHO;
  lastKey = { letter, at: performance.now() };
  if (echo && "amd".includes(letter)) return;
  const wish = { a: "approve", m: "mask", d: "deny" }[letter];
  if (wish && selected) decide(selected, wish);
  else if (letter === "z") void once($("undo"), acts.undo);
  else if (letter === "p") void once($("pause"), acts.pause);
  else if (letter === "s") void once($("skip"), acts.skip);
  else if (letter === "u") void once($("mute"), acts.mute);
  else if (letter === "j" || event.key === "ArrowDown") move(1);
  else if (letter === "k" || event.key === "ArrowUp") move(-1);
  else return;
  event.preventDefault();
});

// ---------------------------------------------------------------- the day's work

function leave() {
  turn += 1;
  connection?.close();
  connection = null;
}

function open() {
  leave();
  const mine = turn;
  seesSources = true;
  connection = connect({ url: HOME, feed, key: key.value || undefined, onChange: draw, onPresence: (watchers) => drawPresence({ watchers }) });
  let seldom = 0;
  const look = async () => {
    if (turn !== mine) return;
    try {
      const answer = await call("GET", `${base}/review`);
      if (turn !== mine) return;
      waiting = answer.review;
      if ($("board").hidden) key.show(true);
      state("live");
      drawWaiting();
      if (Date.now() - seldom >= SELDOM) {
        seldom = Date.now();
        await Promise.all([drawBlocks(), drawSources(), countWatchers()]);
      }
    } catch (error) {
      if (turn !== mine) return;
      if (error.status === 401 || error.status === 403) {
        leave();
        return key.refused(said.wrong);
      }
      state("away");
    }
    setTimeout(look, document.visibilityState === "visible" ? EVERY : 3 * EVERY);
  };
  void look();
}

$("skip").replaceChildren(said.skip, make("kbd", "", "S"));
$("undo").replaceChildren(said.undo, make("kbd", "", "Z"));
press("pause", false, said.pause, said.resume);
press("mute", false, said.mute, said.unmute);
setInterval(tick, 500);
key.guard(open, leave);
