// The first page: a ticker of one feed and a form that sends a gift into it.
// Everything that people typed goes through textContent; nothing here makes markup of text.

import { connect } from "/static/tipcast.js";

const $ = (id) => document.getElementById(id);
const feed = new URLSearchParams(location.search).get("feed") || document.body.dataset.feed;

document.title = `${feed} · Tipcast`;
$("feed").value = feed;

// ---------------------------------------------------------------- the ticker

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const units = new Intl.NumberFormat();
const known = new Set(Intl.supportedValuesOf?.("currency") ?? []);

/** Minor units as money where the currency is one of the world's, else as a plain number. */
function money({ amount, currency }) {
  if (!known.has(currency)) return `${units.format(amount)} ${currency}`;
  const format = new Intl.NumberFormat(undefined, { style: "currency", currency });
  return format.format(amount / 10 ** format.resolvedOptions().maximumFractionDigits);
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/** A stranger's text: isolated from its neighbours, in its own direction. */
function stranger(tag, className, text) {
  const made = element(tag, className, text);
  made.dir = "auto";
  return made;
}

/** A stranger's picture, or `instead` when there is none or it does not load. */
function picture(url, instead) {
  if (!url?.toLowerCase().startsWith("https://")) return instead;
  const image = element("img");
  image.alt = "";
  image.referrerPolicy = "no-referrer";
  image.addEventListener("error", () => image.replaceWith(instead), { once: true });
  image.src = url;
  return image;
}

/** The first character as people count them: an emoji with its joiners is one. */
function initial(name) {
  const first = globalThis.Intl?.Segmenter
    ? new Intl.Segmenter().segment(name)[Symbol.iterator]().next().value?.segment
    : [...name][0];
  // Fonts have the capitals of Latin names; of some scripts (Georgian) they have not.
  return /^\p{Script=Latin}/u.test(first ?? "") ? first.toLocaleUpperCase() : (first ?? "?");
}

function fill(item, row) {
  const face = element("span", "face");
  face.setAttribute("aria-hidden", "true");
  face.append(picture(row.user.avatar, element("span", "", initial(row.user.name))));

  const what = element("span", "what");
  what.append(picture(row.gift.icon, ""), stranger("bdi", "", row.gift.name));
  const said = element("div", "said");
  said.append(stranger("bdi", "who", row.user.name), " sent ", what);
  if (row.test) said.append(element("span", "tag", "test"));
  if (row.message) said.append(stranger("p", "message", row.message));

  const sum = element("div", "sum");
  sum.append(element("span", "count", `×${units.format(row.count)}`));
  if (row.value) sum.append(element("span", "quiet", money(row.value)));
  const time = element("time", "quiet", clock.format(new Date(row.at)));
  time.dateTime = row.at;
  sum.append(time);

  item.dataset.tier = row.tier ?? "";
  item.replaceChildren(face, said, sum);
}

/** Row id → its list item and the rev it shows. */
const shown = new Map();

/** Makes the list on the page the list given, touching only what differs. */
function render(rows, animate) {
  const list = $("ticker");
  const keep = new Set(rows.map((row) => row.row));
  for (const [id, { item }] of shown) {
    if (keep.has(id)) continue;
    item.remove();
    shown.delete(id);
  }
  rows.forEach((row, place) => {
    let entry = shown.get(row.row);
    if (!entry) {
      entry = { item: element("li"), rev: null };
      entry.item.dataset.row = row.row;
      if (animate) entry.item.className = "new";
      shown.set(row.row, entry);
    } else if (entry.rev !== row.rev) {
      // Taken off and put on again, with a layout between, so that the animation starts anew.
      entry.item.className = "";
      void entry.item.offsetWidth;
      entry.item.className = "bumped";
    }
    if (entry.rev !== row.rev) {
      fill(entry.item, row);
      entry.rev = row.rev;
    }
    if (list.children[place] !== entry.item) {
      list.insertBefore(entry.item, list.children[place] ?? null);
    }
  });
  $("empty").hidden = rows.length > 0;
}

function state(name, text) {
  $("state").dataset.state = name;
  $("state").textContent = text;
}

try {
  connect({
    feed,
    onChange: (list, change) => {
      render(list.rows, change.kind === "delta");
      $("position").textContent = `position ${list.epoch}:${list.seq}`;
    },
    onState: (name, { retryInMs, code, reason }) => {
      if (name === "live") state(name, "live");
      else if (name === "connecting") state(name, "connecting …");
      else if (name === "waiting") state(name, `reconnecting in ${(retryInMs / 1000).toFixed(1)} s`);
      else state(name, `closed: ${reason || code}`);
    },
  });
} catch (error) {
  state("closed", error.message);
}

// ---------------------------------------------------------------- sending a gift

/** What the form offers; prices in coins. */
const GIFTS = [
  { id: "rose", name: "🌹 Rose", price: 1 },
  { id: "coffee", name: "☕ Coffee", price: 5 },
  { id: "heart", name: "💜 Heart", price: 10 },
  { id: "cake", name: "🎂 Cake", price: 50 },
  { id: "rocket", name: "🚀 Rocket", price: 500, tier: 7 },
];

for (const { id, name } of GIFTS) {
  const option = element("option", "", name);
  option.value = id;
  $("gift").append(option);
}

/** Random letters that need no secure context, unlike crypto.randomUUID. */
function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What this browser keeps between visits; nothing where storage is forbidden. */
function remembered(key, fresh) {
  try {
    const value = localStorage.getItem(key) ?? fresh;
    localStorage.setItem(key, value);
    return value;
  } catch {
    return fresh;
  }
}

const user = remembered("tipcast-user", `web-${randomId()}`);
$("name").value = remembered("tipcast-name", "");

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Posts until there is an answer: the id makes a second try harmless. */
async function post(gift) {
  for (let tries = 1; ; tries += 1) {
    let answer;
    try {
      answer = await fetch(`/v1/feeds/${encodeURIComponent(feed)}/gifts`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(gift),
        signal: AbortSignal.timeout(8_000),
      });
    } catch (error) {
      if (tries === 4) throw new Error("the gateway does not answer", { cause: error });
    }
    if (answer && answer.status !== 429 && answer.status !== 503) {
      const body = await answer.json().catch(() => ({}));
      if (answer.ok) return body;
      const faults = (body.errors ?? []).map((fault) => `${fault.pointer} ${fault.detail}`);
      throw new Error(faults.join("; ") || body.detail || body.title || `refused (${answer.status})`);
    }
    if (tries === 4) throw new Error("the gateway is busy, try again later");
    const asked = Number(answer?.headers.get("retry-after")) * 1000;
    await pause(Math.min(asked || 500 * 2 ** tries, 5_000));
  }
}

const SAID = {
  accepted: "Sent.",
  merged: "Sent, it joined your last one.",
  suppressed: "Sent too often: this one is not shown.",
  scheduled: "Scheduled.",
};

$("send").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const button = form.querySelector("button");
  const answer = $("answer");
  const count = form.elements.count.valueAsNumber;
  const { price, tier, ...gift } = GIFTS.find(({ id }) => id === form.elements.gift.value);
  const name = form.elements.name.value;
  try {
    localStorage.setItem("tipcast-name", name);
  } catch {
    // Storage is forbidden here; the name is typed again next time.
  }
  button.disabled = true;
  answer.textContent = "";
  try {
    const body = await post({
      id: randomId(),
      user: { id: user, name },
      gift,
      count,
      value: { amount: price * count, currency: "coins" },
      message: form.elements.message.value || undefined,
      tier,
    });
    answer.dataset.ok = "true";
    answer.textContent = SAID[body.status] ?? "Sent.";
    form.elements.message.value = "";
  } catch (error) {
    answer.dataset.ok = "false";
    answer.textContent = error.message;
  } finally {
    button.disabled = false;
  }
});
