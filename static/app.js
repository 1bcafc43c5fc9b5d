// The first page: a ticker of one feed, and a desk that sends gifts into it.

// First: it wants what is counted, and the ticker joins its connection.
import { Show } from "./show.js";
import "./tipcast.js";
import { Drops } from "./drops.js";
import { drawing } from "./icons.js";
import { GIFTS, HOME, burst, gift, post, randomId } from "./send.js";

/** How often the number of viewers is asked for, in milliseconds. */
const STATUS_EVERY = 4_000;
/** What "later" means in the form, in milliseconds. */
const LATER = 10_000;
/** Changes whose time of arrival is remembered, for the latency of what was sent. */
const REMEMBERED = 512;

const SAID = {
  en: {
    connecting: "connecting …", live: "live", waiting: "back in a moment …", closed: "closed",
    accepted: "Sent.", merged: "Sent, it joined your last one.", suppressed: "Sent too often: not shown.",
    scheduled: "Shows in 10 s.", in_review: "It waits for the host.", burst: (n) => `${n} gifts sent.`, copied: "Copied", byHand: "Press Ctrl+C",
    somebody: "Somebody", away: "The gateway does not answer.", busy: "The gateway is busy, try again later.",
    locked: "A producer key is needed.",
  },
  zh: {
    connecting: "正在连接…", live: "已连接", waiting: "马上回来…", closed: "已断开",
    accepted: "已送出。", merged: "已送出，与上一份合并。", suppressed: "送得太频繁，未显示。",
    scheduled: "10 秒后显示。", in_review: "等待主播审核。", burst: (n) => `已送出 ${n} 份礼物。`, copied: "已复制", byHand: "请按 Ctrl+C",
    somebody: "某位观众", away: "网关没有响应。", busy: "网关繁忙，请稍后再试。", locked: "需要生产者密钥。",
  },
};

const $ = (id) => document.getElementById(id);
const lang = document.documentElement.lang === "zh" ? "zh" : "en";
const said = SAID[lang];
const units = new Intl.NumberFormat(lang);
const { feed } = document.body.dataset;
const gifts = `/v1/feeds/${encodeURIComponent(feed)}/gifts`;
const ticker = $("ticker");
// What is behind # never leaves the browser, so it is in nobody's log.
const secrets = new URLSearchParams(location.hash.slice(1));
if (secrets.has("token")) ticker.setAttribute("token", secrets.get("token"));
if (secrets.has("key")) $("key").value = secrets.get("key");

/** What this browser keeps between visits; nothing where storage is forbidden. */
const memory = {
  get(key) {
    try {
      return localStorage.getItem(`tipcast-${key}`);
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      localStorage.setItem(`tipcast-${key}`, value);
    } catch {
      // Typed or chosen again next time.
    }
  },
};

// ---------------------------------------------------------------- what is seen

/** seq → when it was seen here. */
const seen = new Map();
/** seq of what was sent from here and is not seen yet → when it was sent. */
const sent = new Map();

function measure(seq) {
  if (!seen.has(seq) || !sent.has(seq)) return;
  const ms = Math.max(0, seen.get(seq) - sent.get(seq));
  sent.delete(seq);
  $("latency").textContent = `${units.format(ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms))} ms`;
}

function remember(map, seq, at) {
  map.set(seq, at);
  if (map.size > REMEMBERED) map.delete(map.keys().next().value);
  measure(seq);
}

ticker.addEventListener("tipcast-change", ({ detail: { list, change } }) => {
  $("position").textContent = `${list.epoch}:${list.seq}`;
  const now = performance.now();
  for (const op of change.ops ?? []) remember(seen, op.seq, now);
  // The first gift of a feed comes as its first list.
  if (change.kind === "snapshot") remember(seen, list.seq, now);
});

function tellState(state) {
  $("state").dataset.state = state;
  $("state").textContent = said[state];
}

ticker.addEventListener("tipcast-state", ({ detail }) => tellState(detail.state));
tellState(ticker.state);

async function countWatchers() {
  if (document.visibilityState !== "visible" || ticker.state !== "live") return;
  const answer = await fetch(`${HOME}v1/feeds/${encodeURIComponent(feed)}/presence`, { signal: AbortSignal.timeout(3_000) });
  const { watchers } = await answer.json();
  $("watchers").textContent = units.format(watchers);
}

setInterval(() => countWatchers().catch(() => {}), STATUS_EVERY);
ticker.addEventListener("tipcast-state", ({ detail }) => detail.state === "live" && countWatchers().catch(() => {}));

// ---------------------------------------------------------------- what is sent

const user = memory.get("user") ?? `web-${randomId()}`;
memory.set("user", user);
$("name").value = memory.get("name") ?? "";

for (const [n, kind] of GIFTS.entries()) {
  const tile = document.createElement("label");
  const choice = document.createElement("input");
  Object.assign(choice, { type: "radio", name: "gift", value: kind.id, checked: n === 0 });
  const name = document.createElement("span");
  name.textContent = kind[lang];
  const price = document.createElement("small");
  price.textContent = units.format(kind.price);
  tile.dataset.tier = kind.tier;
  tile.append(choice, drawing(kind.id), name, price);
  $("gifts").append(tile);
}

function answer(ok, text, where = "answer") {
  $(where).dataset.ok = String(ok);
  $(where).textContent = text;
}

/** Runs one deed of the desk: its button rests meanwhile, and its outcome is shown. */
async function deed(button, act, where) {
  button.disabled = true;
  try {
    answer(true, await act($("key").value.trim()), where);
  } catch (error) {
    if (error.kind === "locked") {
      $("locked").hidden = false;
      writeCurl(true);
    }
    const known = error.kind && said[error.kind];
    answer(false, known ? [known, error.kind === "locked" ? "" : error.message].join(" ").trim() : error.message, where);
  } finally {
    button.disabled = false;
  }
}

$("send").addEventListener("submit", (event) => {
  event.preventDefault();
  const { name, count, message, test, later, gift: choice } = event.target.elements;
  memory.set("name", name.value);
  deed($("give"), async (key) => {
    const kind = GIFTS.find(({ id }) => id === choice.value);
    const from = { id: user, name: name.value };
    const at = performance.now();
    const details = { count: count.valueAsNumber, message: message.value, test: test.checked, delay: later.checked ? LATER : 0 };
    const told = await post(gifts, gift(from, kind, lang, details), key);
    if (told.seq !== undefined) remember(sent, told.seq, at);
    show.sent(told);
    message.value = "";
    return said[told.status] ?? said.accepted;
  });
});

$("burst").addEventListener("click", () => {
  deed($("burst"), async (key) => said.burst(units.format(await burst(gifts, lang, $("test").checked, key))));
});

// ---------------------------------------------------------------- what is limited

const drops = new Drops({
  root: $("drops"),
  feed,
  lang,
  deed: (button, act) => deed(button, act, "drop-answer"),
  viewer: () => ({ id: user, name: $("name").value || said.somebody }),
  serverTime: () => ticker.serverTime(),
  onHold: () => memory.set("held", "yes"),
});
ticker.addEventListener("tipcast-drops", ({ detail }) => drops.show(detail.drops));
drops.show(ticker.drops);
// Most viewers never held anything: nobody is asked about them.
if (memory.get("held")) drops.recall($("key").value.trim()).catch(() => {});

// ---------------------------------------------------------------- what is counted

const show = new Show({
  root: $("show"),
  feed,
  lang,
  deed: (button, act) => deed(button, act, "show-answer"),
  secret: secrets.get("token") ?? undefined,
});
// Where that needs a key that is not there, the box says nothing.
show.recall($("key").value.trim()).catch(() => {});

// ---------------------------------------------------------------- what is taken along

const overlay = `${HOME}overlay/${feed}`;

function writeCurl(locked) {
  $("curl").textContent = [
    `curl ${new URL(`.${gifts}`, HOME)} \\`,
    ...(locked ? ['  -H "Authorization: Bearer $TIPCAST_KEY" \\'] : []),
    "  -H 'Content-Type: application/json' \\",
    `  -d '{"id":"g-'$(date +%s)'","user":{"id":"u1","name":"Mia"},"gift":{"id":"rose","name":"Rose"},"count":3}'`,
  ].join("\n");
}

writeCurl(false);
$("embed").textContent = [
  `<script type="module" src="${HOME}static/tipcast.js"></script>`,
  `<tipcast-ticker feed="${feed}"></tipcast-ticker>`,
].join("\n");
$("obs").textContent = `${overlay}?max=5&hide_after=8`;

for (const button of document.querySelectorAll("[data-copy]")) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    const code = $(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = said.copied;
    } catch {
      // Not allowed here: what is selected can be copied by hand.
      getSelection().selectAllChildren(code);
      button.textContent = said.byHand;
    }
    setTimeout(() => (button.textContent = label), 2_000);
  });
}

// The loader waits for one address: it is saved with this overlay's.
$("loader").addEventListener("click", async (event) => {
  event.preventDefault();
  const text = await (await fetch(event.target.href)).text();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text.replaceAll("http://127.0.0.1:8080/overlay/demo", overlay)], { type: "text/html" }));
  link.download = event.target.download;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
});

// ---------------------------------------------------------------- how it looks

function wear(theme) {
  if (theme !== "light" && theme !== "dark") return;
  document.documentElement.dataset.theme = theme;
  ticker.setAttribute("theme", theme);
}

wear(new URLSearchParams(location.search).get("theme") ?? memory.get("theme"));
$("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  wear(dark === "dark" ? "light" : "dark");
  memory.set("theme", document.documentElement.dataset.theme);
});

const feeds = [...new Set([feed, ...(memory.get("feeds") ?? "").split(" ").filter(Boolean)])].slice(0, 8);
memory.set("feeds", feeds.join(" "));
$("feeds").append(...feeds.map((name) => Object.assign(document.createElement("option"), { value: name })));
