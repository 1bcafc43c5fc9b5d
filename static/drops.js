// The demo page's drops: what is left of them, buying and holding, and paying for what is held.

import { drawing } from "./icons.js";
import { Refusal, call, randomId } from "./send.js";

/** How often countdowns are written anew, in milliseconds. */
const TICK = 250;
/** Drops on screen. */
const MOST = 3;
/** Open ones first, closed ones last. */
const ORDER = ["open", "sold_out", "pending", "closed"];

/** What the button starts when the feed has no drop that sells. */
const DEMO = { total: 25, per_user: 2, hold_ttl_ms: 60_000, max_holds_per_user: 3 };

const SAID = {
  en: {
    left: (n) => `${n} left`, sold_out: "Sold out", held: (n) => ` · ${n} on hold`, closed: "Closed",
    opens: (t) => `Opens in ${t}`, closes: (t) => ` · ${t} to go`, buy: "Buy now", hold: "Hold",
    pay: "Pay", back: "Give back", until: (t) => `held for ${t}`, rocket: "Rocket",
    bought: "It is yours.", kept: "It is held for you.", returned: "Given back.", started: "Here it is.",
    "sold-out": "Too late, sold out.", "already-claimed": "You have as many as one may have.",
    "too-many-holds": "Pay for what you hold first.", "drop-not-open": "It is not open.",
    "hold-ended": "The time of the hold is over.",
  },
  zh: {
    left: (n) => `还剩 ${n} 份`, sold_out: "已售罄", held: (n) => ` · ${n} 份待付款`, closed: "已结束",
    opens: (t) => `${t} 后开始`, closes: (t) => ` · 剩余 ${t}`, buy: "立即购买", hold: "预留",
    pay: "付款", back: "放弃", until: (t) => `为你保留 ${t}`, rocket: "火箭",
    bought: "归你了。", kept: "已为你保留。", returned: "已放弃。", started: "开始了。",
    "sold-out": "来晚了，已售罄。", "already-claimed": "你已达到每人上限。",
    "too-many-holds": "请先为已保留的付款。", "drop-not-open": "尚未开放。",
    "hold-ended": "保留时间已过。",
  },
};

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

function button(name, text, act) {
  const made = element("button", name, text);
  made.type = "button";
  made.addEventListener("click", () => act(made));
  return made;
}

/** A stranger's text: isolated from its neighbours, in its own direction. */
function stranger(name) {
  const made = element("bdi", name);
  made.dir = "auto";
  return made;
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Milliseconds as m:ss, rounded up: 0:00 is the end. */
function clock(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** One drop on screen. */
class Card {
  constructor(said, claim) {
    this.said = said;
    this.box = element("article", "drop");
    this.icon = element("span", "drop-icon");
    this.icon.setAttribute("aria-hidden", "true");
    this.name = stranger("drop-name");
    this.left = element("p", "drop-left");
    this.bar = element("progress");
    this.buy = button("buy", said.buy, (pressed) => claim(this.drop, "now", pressed));
    this.hold = button("hold", said.hold, (pressed) => claim(this.drop, "later", pressed));
    const about = element("div", "drop-about");
    about.append(this.name, this.left, this.bar);
    const deeds = element("div", "drop-deeds");
    deeds.append(this.buy, this.hold);
    this.box.append(this.icon, about, deeds);
  }

  fill(drop, units, now) {
    const { said } = this;
    if (this.drop?.gift.id !== drop.gift.id) this.icon.replaceChildren(drawing(drop.gift.id));
    this.drop = drop;
    this.box.dataset.drop = drop.drop;
    this.box.dataset.state = drop.state;
    write(this.name, drop.gift.name);
    const waits = { open: said.left(units.format(drop.free)), sold_out: said.sold_out, closed: said.closed }[drop.state];
    const until = { pending: drop.opens_at, open: drop.closes_at, sold_out: drop.closes_at }[drop.state];
    const time = until && clock(Date.parse(until) - now);
    const held = drop.state !== "closed" && drop.held ? said.held(units.format(drop.held)) : "";
    const closes = time ? said.closes(time) : "";
    write(this.left, drop.state === "pending" ? said.opens(time ?? "") : `${waits}${held}${closes}`);
    if (this.bar.max !== drop.total) this.bar.max = drop.total;
    if (this.bar.value !== drop.free) this.bar.value = drop.free;
    for (const pressed of [this.buy, this.hold]) pressed.disabled = drop.state !== "open" || this.resting === pressed;
  }
}

/**
 * Fills `root`. `deed(button, act)` runs what a button does and shows its outcome; `viewer()` is who buys;
 * `serverTime()` is the gateway's clock; `onHold()` hears of every hold.
 */
export class Drops {
  #said;
  #units;
  #cards = new Map();
  /** What this viewer holds, by the name of the hold. */
  #holds = new Map();
  #drops = [];

  constructor({ root, feed, lang, deed, viewer, serverTime, onHold }) {
    Object.assign(this, { deed, viewer, serverTime, onHold });
    this.base = `/v1/feeds/${encodeURIComponent(feed)}`;
    this.#said = SAID[lang];
    this.#units = new Intl.NumberFormat(lang);
    this.list = root.querySelector(".drop-list");
    this.held = root.querySelector(".hold-list");
    this.empty = root.querySelector(".drop-empty");
    root.querySelector(".drop-start").addEventListener("click", (event) => this.#start(event.target));
    setInterval(() => document.visibilityState === "visible" && this.#draw(), TICK);
  }

  /** The feed's drops as watchers see them. */
  show(drops) {
    this.#drops = drops;
    this.#draw();
  }

  /** What the viewer held before this page was loaded; nothing where a key is needed and there is none. */
  async recall(key) {
    const path = `${this.base}/users/holds?user=${encodeURIComponent(this.viewer().id)}`;
    const { holds } = await call("GET", path, undefined, key);
    for (const hold of holds) this.#holds.set(hold.hold, hold);
    this.#draw();
  }

  #draw() {
    const now = this.serverTime();
    const shown = [...this.#drops].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state)).slice(0, MOST);
    const cards = shown.map((drop) => {
      const card = this.#cards.get(drop.drop) ?? new Card(this.#said, (...asked) => this.#claim(...asked));
      this.#cards.set(drop.drop, card);
      card.fill(drop, this.#units, now);
      return card.box;
    });
    if (cards.some((box, n) => this.list.children[n] !== box) || this.list.children.length !== cards.length) {
      this.list.replaceChildren(...cards);
    }
    this.empty.hidden = shown.some(({ state }) => state === "open" || state === "pending");
    this.#drawHolds(now);
  }

  #drawHolds(now) {
    for (const [name, hold] of this.#holds) {
      const left = Date.parse(hold.expires_at) - now;
      if (left <= 0) {
        hold.line?.remove();
        this.#holds.delete(name);
        continue;
      }
      hold.line ??= this.#line(hold);
      const gift = this.#drops.find(({ drop }) => drop === hold.drop)?.gift.name ?? hold.drop;
      write(hold.what, `${this.#units.format(hold.count)} × ${gift}`);
      write(hold.time, this.#said.until(clock(left)));
    }
    this.held.hidden = this.#holds.size === 0;
  }

  #line(hold) {
    const { pay, back } = this.#said;
    const line = element("li");
    hold.what = stranger("");
    hold.time = element("span", "quiet");
    const end = (method, rest, told) => (pressed) =>
      this.#do(pressed, async (key) => {
        try {
          await call(method, `${this.base}/holds/${encodeURIComponent(hold.hold)}${rest}`, undefined, key);
        } finally {
          line.remove();
          this.#holds.delete(hold.hold);
        }
        return told;
      });
    const paid = button("pay", pay, end("POST", "/confirm", this.#said.bought));
    line.append(hold.what, hold.time, paid, button("back", back, end("DELETE", "", this.#said.returned)));
    this.held.append(line);
    return line;
  }

  #claim(drop, when, pressed) {
    this.#do(pressed, async (key) => {
      const claim = { id: randomId(), user: this.viewer(), pay: when };
      const told = await call("POST", `${this.base}/drops/${encodeURIComponent(drop.drop)}/claims`, claim, key);
      if (told.status === "held") {
        this.#holds.set(told.hold, told);
        this.onHold();
      }
      this.#draw();
      return told.status === "held" ? this.#said.kept : this.#said.bought;
    });
  }

  #start(pressed) {
    this.#do(pressed, async (key) => {
      const body = { gift: { id: "rocket", name: this.#said.rocket }, ...DEMO };
      await call("PUT", `${this.base}/drops/demo-${Date.now().toString(36)}`, body, key);
      return this.#said.started;
    });
  }

  /** Refusals of drops have words of their own. */
  #do(pressed, act) {
    this.deed(pressed, async (key) => {
      try {
        return await act(key);
      } catch (error) {
        const known = this.#said[error.type?.replace("/problems/", "")];
        throw known ? new Refusal("refused", known) : error;
      }
    });
  }
}
