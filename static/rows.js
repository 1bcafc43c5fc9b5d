/**
 * Shows a list of rows in an <ol>, changing only what differs: a row keeps its element for as long
 * as it is listed. Everything in a row is a stranger's text and goes through textContent.
 */

import { drawing, isDrawn } from "./icons.js";

/** A picture that takes longer is not shown at all, in milliseconds. */
const PICTURE_WITHIN = 5_000;
/** In a burst not every change moves something, in milliseconds: nobody could follow, and it costs. */
const CALM = 200;
/** Rows on their way out that may be on screen at once; more leave without a farewell. */
const LEAVING = 3;

/** An amount of more characters is long. */
const LONG = 9;

const still = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)");

/** Whether anything may move: people may not want it, and nobody sees a hidden page. */
export function moves() {
  return !still?.matches && document.visibilityState === "visible";
}

export function element(tag, part, text) {
  const made = document.createElement(tag);
  if (part) made.className = made.part = part;
  if (text !== undefined) made.textContent = text;
  return made;
}

/** A stranger's text: isolated from its neighbours, in its own direction. */
function stranger(tag, part) {
  const made = element(tag, part);
  made.dir = "auto";
  return made;
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The first character as people count them: an emoji with its joiners is one. */
function first(text) {
  if (!Intl.Segmenter) return [...text][0] ?? "";
  return new Intl.Segmenter().segment(text)[Symbol.iterator]().next().value?.segment ?? "";
}

function initial(name) {
  // Signs in front of a name say little; fonts have the capitals of Latin, of some scripts not.
  const letter = first(name.replace(/^[^\p{L}\p{N}\p{Extended_Pictographic}]+/u, "") || name) || "?";
  return /^\p{Script=Latin}/u.test(letter) ? letter.toLocaleUpperCase() : letter;
}

/** A hue that is always the same for the same viewer. */
function hue(id) {
  // FNV-1a, stirred once more: ids are often alike but for their last sign.
  let hash = 0x811c9dc5;
  for (const letter of id) hash = Math.imul(hash ^ letter.codePointAt(0), 0x01000193);
  return (Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 8) % 360;
}

/** "🌹 Rose" taken apart, where a producer put the picture into the name. */
function pictured(name) {
  const sign = first(name);
  const rest = name.slice(sign.length).trim();
  const found = rest && /^[\p{Extended_Pictographic}\p{Regional_Indicator}]/u.test(sign);
  return found ? { sign, rest } : { sign: "", rest: name };
}

/** Puts a stranger's picture over what `box` holds once it is loaded, if that is soon. */
function picture(box, url) {
  box.querySelector("img")?.remove();
  delete box.dataset.pictured;
  if (!url?.toLowerCase().startsWith("https://")) return;
  const image = new Image();
  image.alt = "";
  image.referrerPolicy = "no-referrer";
  image.decoding = "async";
  const late = setTimeout(() => (image.src = ""), PICTURE_WITHIN);
  image.onerror = () => clearTimeout(late);
  image.onload = () => {
    clearTimeout(late);
    if (box.dataset.url !== url) return;
    box.append(image);
    box.dataset.pictured = "";
  };
  image.src = url;
}

/** One row on screen. As an `alert` the money comes first and large, and a count of one is left out. */
class Item {
  constructor(row, alert) {
    this.alert = alert;
    this.li = element("li", "row");
    this.li.dataset.row = row.row;
    this.face = element("span", "avatar");
    this.face.setAttribute("aria-hidden", "true");
    this.face.append((this.initial = element("span", "initial")));
    this.who = stranger("bdi", "name");
    this.time = element("time", "time");
    this.verb = element("span", "verb");
    this.what = stranger("bdi", "gift");
    this.value = element("span", "value");
    this.badge = element("span", "badge");
    this.message = stranger("p", "message");
    this.icon = element("span", "icon");
    this.count = element("span", "count");
    const said = element("div", "said");
    const head = element("div", "head");
    head.append(this.who, this.badge, this.time);
    const deed = element("div", "deed");
    if (alert) deed.append(this.value, this.verb, this.what);
    else deed.append(this.verb, " ", this.what, this.value);
    this.li.toggleAttribute("data-alert", alert);
    said.append(head, deed, this.message);
    this.li.append(this.face, said, this.icon, this.count);
  }

  /** What jumps when the row grows: the thing that is largest in it. */
  get hero() {
    return this.alert && this.row?.value ? this.value : this.count;
  }

  /** Writes what differs; true when the count went up. */
  fill(row, words, format) {
    const grown = this.row !== undefined && row.count > this.row.count;
    const { sign, rest } = pictured(row.gift.name);
    this.li.dataset.tier = row.tier ?? 0;
    this.li.toggleAttribute("data-test", Boolean(row.test));
    if (this.row?.user.id !== row.user.id) this.face.style.setProperty("--hue", hue(row.user.id));
    write(this.initial, initial(row.user.name));
    this.#picture(this.face, row.user.avatar);
    write(this.who, row.user.name);
    this.who.title = row.user.name;
    write(this.verb, words.sent);
    if (this.row?.gift.id !== row.gift.id || this.row?.gift.name !== row.gift.name) {
      const drawn = isDrawn(row.gift.id) || !sign;
      this.icon.replaceChildren(drawn ? drawing(row.gift.id) : element("span", "sign", sign));
      this.icon.setAttribute("aria-hidden", "true");
      delete this.icon.dataset.url;
    }
    this.#picture(this.icon, row.gift.icon);
    write(this.what, rest);
    this.what.title = row.gift.name;
    const money = row.value ? format.money(row.value) : "";
    write(this.value, money);
    // An amount is read whole or not at all: a long one is smaller, and may take two lines.
    if (money) this.li.dataset.money = money.length > LONG ? "long" : "short";
    else delete this.li.dataset.money;
    write(this.badge, row.test ? words.test : "");
    // A message of signs that nobody can see would be an empty line.
    write(this.message, /[^\s\p{C}]/u.test(row.message ?? "") ? row.message : "");
    write(this.count, this.alert && row.count === 1 ? "" : `×${format.count(row.count)}`);
    this.count.title = format.number(row.count);
    this.time.dateTime = row.at;
    this.time.title = format.moment(row.at);
    this.row = row;
    return grown;
  }

  #picture(box, url = "") {
    if ((box.dataset.url ?? "") === url) return;
    box.dataset.url = url;
    picture(box, url);
  }
}

export class Rows {
  /** Row id → its item. */
  #items = new Map();
  #leaving = new Set();
  #movedAt = -CALM;

  /** `now()` is the server's clock in milliseconds. `alerts`: each row is an alert, see `Item`. */
  constructor(list, { words, format, now, alerts = false }) {
    Object.assign(this, { list, words, format, now, alerts });
  }

  /** Another language: everything is written anew, in place. */
  speak(words, format) {
    Object.assign(this, { words, format });
    for (const item of this.#items.values()) item.fill(item.row, words, format);
    this.tick();
  }

  /** Makes the list on screen the list given, newest first. `animate`: it changed before one's eyes. */
  show(rows, animate) {
    const moving = animate && moves() && performance.now() - this.#movedAt >= CALM;
    if (moving) this.#movedAt = performance.now();
    const tops = moving ? this.#tops() : undefined;
    const keep = new Set(rows.map((row) => row.row));
    for (const [id, item] of this.#items) {
      if (!keep.has(id)) this.#remove(id, item, moving);
    }
    const fresh = [];
    rows.forEach((row, place) => {
      let item = this.#items.get(row.row);
      if (!item) {
        item = new Item(row, this.alerts);
        this.#items.set(row.row, item);
        fresh.push(item);
      }
      if (item.row !== row && item.fill(row, this.words, this.format) && moving) pop(item.hero);
      // Those on their way out stand at the end, outside the flow.
      if (this.list.children[place] !== item.li) this.list.insertBefore(item.li, this.list.children[place] ?? null);
    });
    this.tick();
    if (moving) this.#settle(tops, fresh);
  }

  /** Writes the relative times anew. */
  tick() {
    const now = this.now();
    for (const { row, time } of this.#items.values()) write(time, this.format.ago(now - Date.parse(row.at)));
  }

  #tops() {
    const tops = new Map();
    for (const item of this.#items.values()) tops.set(item, [item.li.offsetLeft, item.li.offsetTop]);
    return tops;
  }

  /** New rows slide in; the others glide from where they were. */
  #settle(tops, fresh) {
    for (const { li, hero } of fresh) {
      li.animate(
        [
          { opacity: 0, transform: "translateY(-0.8em) scale(0.96)" },
          { opacity: 1, transform: "none" },
        ],
        { duration: 380, easing: "cubic-bezier(0.2, 0.9, 0.3, 1.2)" },
      );
      pop(hero);
    }
    for (const [item, [left, top]] of tops) {
      const [dx, dy] = [left - item.li.offsetLeft, top - item.li.offsetTop];
      if (!item.li.isConnected || (!dx && !dy)) continue;
      const from = `translate(${dx}px, ${dy}px)`;
      item.li.animate([{ transform: from }, { transform: "none" }], { duration: 260, easing: "ease-out" });
    }
  }

  #remove(id, { li }, moving) {
    this.#items.delete(id);
    if (!moving || this.#leaving.size >= LEAVING) return li.remove();
    const { offsetLeft, offsetTop, offsetWidth } = li;
    Object.assign(li.style, { position: "absolute", left: `${offsetLeft}px`, top: `${offsetTop}px`, width: `${offsetWidth}px` });
    li.setAttribute("aria-hidden", "true");
    delete li.dataset.row;
    li.dataset.leaving = "";
    this.list.append(li);
    this.#leaving.add(li);
    const gone = () => {
      li.remove();
      this.#leaving.delete(li);
    };
    // By the clock, not by the animation's end: that never comes on a page that is hidden meanwhile.
    setTimeout(gone, 240);
    li.animate([{ opacity: 1 }, { opacity: 0, transform: "scale(0.96)" }], { duration: 220, fill: "forwards" });
  }
}

/** A number that grew jumps once; a jump that is on starts anew. */
function pop(number) {
  for (const running of number.getAnimations()) running.cancel();
  number.animate(
    [{ transform: "scale(1.7) rotate(-4deg)" }, { transform: "scale(0.92)", offset: 0.6 }, { transform: "none" }],
    { duration: 420, easing: "ease-out" },
  );
}
