// What the screens of the console are made of: times, links, buttons, a question, and a table that stays fast.

import { Format } from "./format.js";
import { $, Key, lang, make } from "./keyed.js";
import { words } from "./console_words.js";

export const format = new Format(lang, lang === "zh" ? "刚刚" : "now");
const units = new Intl.NumberFormat(lang, { maximumFractionDigits: 1 });

/** The key of this tab, and calls that carry it. */
export const key = new Key("tipcast-admin-key");
export const call = (method, path, body) => key.call(method, path, body);

/** A number with at most one decimal. */
export const number = (n) => units.format(n);

/** The path of a feed's API. */
export const feedPath = (feed) => `/v1/feeds/${encodeURIComponent(feed)}`;

/** The address of a screen: `screen("ledger", ["show"], { type: "drop.sold" })` is `#/ledger/show?type=drop.sold`. */
export function screen(name, parts = [], query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given).toString();
  return `#/${[name, ...parts].map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

/** A length of time in its largest unit. */
export function age(ms) {
  const steps = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1_000, "s"]];
  const [size, unit] = steps.find(([size]) => ms >= size) ?? [1, "ms"];
  return `${number(size > 1_000 ? ms / size : Math.round(ms / size))} ${unit}`;
}

/** How long ago a time was, or in how long it will be. */
function distance(text) {
  const ms = Date.now() - Date.parse(text);
  return ms < -1_000 ? words.ahead(age(-ms)) : words.ago(age(Math.max(0, ms)));
}

/** A time as how far away it is, with the whole of it on hover. It goes on by itself, whatever else is drawn anew. */
export function since(text) {
  const element = make("time", "", distance(text));
  element.dateTime = text;
  element.title = format.moment(text);
  return element;
}

setInterval(() => {
  for (const time of document.querySelectorAll("time")) time.textContent = distance(time.dateTime);
}, 1_000);

export function link(text, href, className = "") {
  const element = make("a", className, text);
  element.href = href;
  return element;
}

export function fact(name, value, bad = false) {
  return make("span", bad ? "bad" : "", `${name} ${value}`);
}

/** Says what came of something, above every screen. */
export function notice(text, bad = false) {
  $("notice").className = bad ? "bad" : "";
  $("notice").textContent = text;
}

/** A button that rests while its deed is under way, and says why it was refused. */
export function act(text, deed, className = "") {
  const button = make("button", className, text);
  button.type = "button";
  button.addEventListener("click", async () => {
    button.disabled = true;
    notice("");
    try {
      await deed(button);
    } catch (error) {
      notice(error.message, true);
    }
    button.disabled = false;
  });
  return button;
}

/** A form whose fields are given to `deed` as an object when it is sent. */
export function onSubmit(form, deed) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    notice("");
    try {
      await deed(Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()])));
    } catch (error) {
      notice(error.message, true);
    }
  });
}

/** A labelled field of a form. */
export function field(label, name, { value = "", ...more } = {}) {
  const input = Object.assign(make("input", ""), { name, value, autocomplete: "off", spellcheck: false, ...more });
  input.setAttribute("autocapitalize", "none");
  return make("label", "field", make("span", "", label), input);
}

/** Fills `list` with items, or with one that says there are none. */
export function list(element, items, none = words.none) {
  element.replaceChildren(...(items.length ? items : [make("li", "quiet", none)]));
}

/**
 * Asks once, in a dialog: `title`, `body` (elements), and what the button that agrees says. Resolves to whether it was
 * pressed. The dialog stays when `agree` gives false, and when it throws, with its message.
 */
export function ask({ title, body = [], yes, agree = async () => {}, danger = false }) {
  return new Promise((resolve) => {
    const heading = make("h2", "", title);
    heading.id = "asked";
    const refused = make("p", "bad");
    refused.setAttribute("role", "alert");
    const confirm = make("button", danger ? "danger" : "", yes);
    const cancel = make("button", "plain", words.cancel);
    cancel.type = "button";
    const form = make("form", "", heading, ...body, refused, make("div", "acts", confirm, cancel));
    const dialog = make("dialog", "", form);
    dialog.setAttribute("aria-labelledby", "asked");
    let agreed = false;
    cancel.addEventListener("click", () => dialog.close());
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      confirm.disabled = true;
      try {
        agreed = (await agree(confirm)) !== false;
        if (agreed) dialog.close();
      } catch (error) {
        refused.textContent = error.message;
      }
      confirm.disabled = false;
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(agreed);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A button for what destroys: it asks once, says what will happen, and does it. */
export function destroy(text, title, lines, deed) {
  return act(text, async () => {
    await ask({ title, body: lines.map((line) => make("p", "", line)), yes: text, agree: deed, danger: true });
  }, "plain");
}

/** Rows that are elements beyond those in view, above and below. */
const SPARE = 12;

/**
 * A table of any number of rows, of which only those in view are elements. Columns are `{id, name, cell(row), sort?(row),
 * number?, extra?}`: `cell` gives a text or an element, a column with `sort` is sorted by a click on its name, and one that
 * is `extra` is left out on a phone. Rows are known by `key(row)`.
 */
export class Table {
  #columns;
  #key;
  #rows = [];
  #by;
  #down;
  #known = new Map();
  #box;
  #head = make("thead", "");
  #body = make("tbody", "");

  constructor(caption, columns, key, { by = "", down = false } = {}) {
    this.#columns = columns;
    this.#key = key;
    this.#by = by;
    this.#down = down;
    const title = make("caption", "hidden", caption);
    this.element = make("table", "rows", title, this.#head, this.#body);
    this.#box = make("div", "window", this.element);
    this.#box.tabIndex = 0;
    this.#box.setAttribute("role", "group");
    this.#box.setAttribute("aria-label", caption);
    this.#box.addEventListener("scroll", () => this.#draw(), { passive: true });
    new ResizeObserver(() => this.#draw()).observe(this.#box);
    this.#drawHead();
  }

  /** The element that scrolls. */
  get box() {
    return this.#box;
  }

  show(rows) {
    this.#rows = rows;
    this.#sort();
    this.#draw();
  }

  #sort() {
    const column = this.#columns.find(({ id }) => id === this.#by);
    if (!column?.sort) return;
    const sign = this.#down ? -1 : 1;
    this.#rows = this.#rows.toSorted((a, b) => {
      const [left, right] = [column.sort(a), column.sort(b)];
      return left === right ? 0 : sign * (left < right ? -1 : 1);
    });
  }

  #drawHead() {
    this.#head.replaceChildren(make("tr", "", ...this.#columns.map(({ id, name, sort, number, extra }) => {
      const cell = make("th", [number ? "number" : "", extra ? "extra" : ""].join(" ").trim());
      cell.scope = "col";
      if (!sort) {
        cell.textContent = name;
        return cell;
      }
      const mine = id === this.#by;
      cell.setAttribute("aria-sort", mine ? (this.#down ? "descending" : "ascending") : "none");
      const button = make("button", "head", name);
      button.type = "button";
      button.addEventListener("click", () => {
        this.#down = mine ? !this.#down : Boolean(number);
        this.#by = id;
        this.#sort();
        this.#drawHead();
        this.#draw();
        this.#head.querySelectorAll("button")[this.#columns.filter((it) => it.sort).findIndex((it) => it.id === id)].focus();
      });
      cell.append(button);
      return cell;
    })));
  }

  #rowOf(row, index) {
    const key = this.#key(row);
    const looks = JSON.stringify(row);
    const known = this.#known.get(key);
    const element = known?.looks === looks ? known.element : make("tr", row.damaged ? "bad" : "", ...this.#columns.map(({ id, cell, number, extra }) =>
      make("td", [id, number ? "number" : "", extra ? "extra" : ""].filter(Boolean).join(" "), cell(row) ?? "")));
    element.ariaRowIndex = String(index + 2);
    return [key, { looks, element }];
  }

  #draw() {
    const size = Number.parseFloat(getComputedStyle(this.#box).getPropertyValue("--row")) || 36;
    const first = Math.max(0, Math.floor(this.#box.scrollTop / size) - SPARE);
    const last = Math.min(this.#rows.length, Math.ceil((this.#box.scrollTop + (this.#box.clientHeight || 800)) / size) + SPARE);
    this.#known = new Map(this.#rows.slice(first, last).map((row, n) => this.#rowOf(row, first + n)));
    this.element.ariaRowCount = String(this.#rows.length + 1);
    const gap = (rows) => {
      const row = make("tr", "gap", make("td", ""));
      row.ariaHidden = "true";
      row.style.height = `${rows * size}px`;
      return rows > 0 ? [row] : [];
    };
    const wanted = [...gap(first), ...[...this.#known.values()].map(({ element }) => element), ...gap(this.#rows.length - last)];
    if (!this.#rows.length) {
      const cell = make("td", "quiet", words.none);
      cell.colSpan = this.#columns.length;
      wanted.push(make("tr", "", cell));
    }
    // Rows that stay are not moved, or a link in one would lose its focus.
    const kept = new Set(wanted);
    for (const element of [...this.#body.children]) if (!kept.has(element)) element.remove();
    wanted.forEach((element, n) => {
      if (this.#body.children[n] !== element) this.#body.insertBefore(element, this.#body.children[n] ?? null);
    });
  }
}
