/**
 * <tipcast-ticker feed="demo"></tipcast-ticker>: a feed's list on any page. docs/EMBEDDING.md has its
 * attributes, parts, slots, custom properties and events.
 */

import { Format } from "./format.js";
import { look } from "./look.js";
import { Rows, element } from "./rows.js";
import { follow } from "./shared.js";
import { speak } from "./words.js";

/** How often relative times are written anew, in milliseconds. */
const TICK = 1_000;
/** Screen readers get at most one summary in this time, in milliseconds. */
const SUMMARY_EVERY = 6_000;

/** The gateway that this file came from, or nothing when it was bundled into something else. */
const HOME = /^(https?:.*)\/static\/ticker\.js(\?.*)?$/.exec(import.meta.url)?.[1];

const CSS = `
:host { display: block; color: var(--_text); font-size: var(--tipcast-size, 1rem); text-align: start; }
:host([hidden]) { display: none; }
.panel { padding: var(--tipcast-padding, 0.8em); border-radius: calc(var(--tipcast-radius, 1em) + 0.4em); background: var(--_panel); }
.bar { display: flex; align-items: center; gap: 0.6em; margin: 0 0.2em 0.7em; font: 600 0.95em/1.4 system-ui, sans-serif; }
.title { flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.status { display: flex; align-items: center; gap: 0.4em; color: var(--_quiet); font-size: 0.82em; font-weight: 500; white-space: nowrap; }
.status::before { content: ""; width: 0.6em; height: 0.6em; border-radius: 50%; background: #d97706; }
.status[data-state="live"]::before { background: #16a34a; }
.status[data-state="closed"]::before { background: #dc2626; }
.pause {
  flex: none; padding: 0.2em 0.75em; border: 1px solid var(--_line); border-radius: 99px; background: transparent;
  color: inherit; font: inherit; font-size: 0.82em; cursor: pointer;
}
.pause:hover { background: var(--_row); }
.pause:focus-visible { outline: 2px solid var(--_accent); outline-offset: 2px; }
.empty { padding: 2em 1em; border: 1px dashed var(--_line); border-radius: var(--tipcast-radius, 1em); color: var(--_quiet); text-align: center; }
.empty[hidden] { display: none; }
.summary { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;

let sheet;

function sheets() {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(CSS);
  }
  return [look(), sheet];
}

/** A place for the page's own content, with what is there otherwise. */
function slot(name, ...otherwise) {
  const made = document.createElement("slot");
  made.name = name;
  made.append(...otherwise);
  return made;
}

// Also imported where there is no document, when pages are rendered on a server.
const Base = globalThis.HTMLElement ?? class {};

export class TipcastTicker extends Base {
  static observedAttributes = ["feed", "url", "token", "max", "lang", "theme"];

  #view = {
    title: element("span", "title"),
    name: element("span"),
    status: element("span", "status"),
    pause: element("button", "pause"),
    list: element("ol", "rows"),
    empty: element("div", "empty"),
    nothing: element("span"),
    summary: element("div", "summary"),
  };
  #placed = false;
  #words;
  #format;
  #connection = null;
  #token;
  #list = null;
  #rows = null;
  #paused = false;
  /** Rows that came while paused. */
  #held = 0;
  #state = ["connecting", {}];
  #ticking = null;
  /** What the next summary is about, and when it may be given. */
  #unsaid = 0;
  #saying = null;
  #rest = 0;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = sheets();
    const panel = element("div", "panel");
    const bar = element("div", "bar");
    const { title, status, pause, list, empty, summary } = this.#view;
    title.append(slot("title", this.#view.name));
    pause.type = "button";
    pause.addEventListener("click", () => (this.#paused ? this.resume() : this.pause()));
    bar.append(title, status, pause);
    empty.append(slot("empty", this.#view.nothing));
    empty.hidden = true;
    summary.setAttribute("aria-live", "polite");
    panel.append(bar, list, empty, slot("footer"), summary);
    root.append(panel);
  }

  /** The list as it stands, newest first; also while paused. */
  get rows() {
    return this.#list?.rows ?? [];
  }

  /** The feed's drops by name. */
  get drops() {
    return this.#list?.drops ?? [];
  }

  /** The gateway's clock as far as it is known, milliseconds since 1970. */
  serverTime() {
    return this.#connection?.serverTime() ?? Date.now();
  }

  /** `epoch:seq`, or null before anything is known. */
  get position() {
    return this.#connection?.position ?? null;
  }

  /** "connecting", "live", "waiting" or "closed". */
  get state() {
    return this.#state[0];
  }

  get paused() {
    return this.#paused;
  }

  /** A viewer's token, or a function that gives one, see `connect`; while it is not set, the attribute counts. */
  get token() {
    return this.#token ?? this.getAttribute("token") ?? undefined;
  }

  set token(token) {
    this.#token = token ?? undefined;
    if (!this.#placed) return;
    this.#leave();
    this.#follow();
  }

  set paused(paused) {
    if (Boolean(paused) === this.#paused) return;
    if (paused) this.pause();
    else this.resume();
  }

  /** Stands still; goes on following, and shows where things stand at `resume()`. */
  pause() {
    this.#paused = true;
    this.#say();
  }

  resume() {
    this.#paused = false;
    this.#held = 0;
    this.#say();
    this.#draw(true);
  }

  connectedCallback() {
    this.#placed = true;
    this.#speak();
    this.#follow();
    this.#ticking = setInterval(() => document.visibilityState === "visible" && this.#rows?.tick(), TICK);
  }

  disconnectedCallback() {
    this.#placed = false;
    this.#leave();
    clearInterval(this.#ticking);
    clearTimeout(this.#saying);
    this.#saying = null;
  }

  attributeChangedCallback(name, before, now) {
    // Attributes of the page are set before the element is connected; `isConnected` is true by then.
    if (!this.#placed || before === now) return;
    if (name === "lang") this.#speak();
    else if (name === "max") this.#draw(false);
    else if (name !== "theme") {
      this.#leave();
      this.#follow();
    }
  }

  #speak() {
    // An element speaks the language of its place, as everything on a page does.
    const { locale, words } = speak(this.closest("[lang]")?.lang);
    this.#words = words;
    this.#format = new Format(locale, words.now);
    if (this.#rows) this.#rows.speak(words, this.#format);
    else this.#rows = new Rows(this.#view.list, { words, format: this.#format, now: () => this.#connection?.serverTime() ?? Date.now() });
    this.#view.name.textContent = words.title;
    this.#view.list.setAttribute("aria-label", words.title);
    this.#say();
  }

  #follow() {
    const feed = this.getAttribute("feed");
    if (!feed) return this.#tell("closed", { reason: "the attribute feed is missing" });
    try {
      const url = new URL(this.getAttribute("url") || HOME || ".", document.baseURI).href;
      this.#connection = follow({ url, feed, token: this.token || undefined }, {
        onChange: (list, change) => this.#take(list, change),
        onState: (state, detail) => this.#tell(state, detail),
      });
    } catch (error) {
      this.#tell("closed", { reason: error.message });
    }
  }

  #leave() {
    const last = this.#connection;
    this.#connection = null;
    last?.close();
    this.#list = null;
    this.#rows?.show([], false);
    this.#view.empty.hidden = true;
  }

  #take(list, change) {
    const before = this.#list;
    this.#list = list;
    const known = new Set(before?.rows.map((row) => row.row));
    const added = before ? list.rows.filter((row) => !known.has(row.row)).length : 0;
    if (this.#paused) this.#held += added;
    if (this.#held) this.#say();
    this.#draw(before !== null);
    this.#unsaid += added;
    this.#summarize();
    this.dispatchEvent(new CustomEvent("tipcast-change", { detail: { list, change } }));
    if (list.drops !== before?.drops && (list.drops.length || before?.drops.length)) {
      this.dispatchEvent(new CustomEvent("tipcast-drops", { detail: { drops: list.drops } }));
    }
  }

  #draw(animate) {
    if (!this.#list || this.#paused) return;
    const max = Number(this.getAttribute("max")) || Infinity;
    const rows = this.#list.rows.slice(0, Math.max(1, max));
    this.#rows.show(rows, animate);
    this.#view.empty.hidden = rows.length > 0;
  }

  #tell(state, detail) {
    this.#state = [state, detail];
    this.#say();
    this.dispatchEvent(new CustomEvent("tipcast-state", { detail: { state, ...detail } }));
  }

  /** The line of status and the button. */
  #say() {
    const [words, format] = [this.#words, this.#format];
    if (!words) return;
    const [state, { retryInMs, reason, code }] = this.#state;
    const refused = state === "closed" ? words.refused[code] : undefined;
    this.#view.nothing.textContent = refused ?? words.empty;
    if (refused) this.#view.empty.hidden = false;
    this.#view.status.dataset.state = state;
    this.#view.status.title = reason ?? "";
    const seconds = state === "waiting" ? format.number(Math.max(1, Math.round(retryInMs / 1000))) : "";
    this.#view.status.textContent = state === "waiting" ? words.retrying(seconds) : words[state];
    const held = this.#held ? ` · ${words.waiting(format.number(this.#held))}` : "";
    this.#view.pause.textContent = this.#paused ? `${words.resume}${held}` : words.pause;
    this.#view.pause.setAttribute("aria-pressed", String(this.#paused));
  }

  /** A reader who listens gets the sum of things now and then, not every gift. */
  #summarize() {
    if (!this.#unsaid || this.#saying || this.#paused) return;
    this.#saying = setTimeout(() => {
      this.#saying = null;
      const row = this.rows[0];
      if (!row || !this.#unsaid) return;
      const [words, format] = [this.#words, this.#format];
      const latest = words.line(row.user.name, format.number(row.count), row.gift.name);
      this.#view.summary.textContent = words.summary(format.number(this.#unsaid), latest);
      this.#unsaid = 0;
      this.#rest = Date.now() + SUMMARY_EVERY;
    }, Math.max(200, this.#rest - Date.now()));
  }
}
