/**
 * <tipcast-leaders feed="demo" period="session" by="points">, <tipcast-goal feed="demo" goal="mic"> and
 * <tipcast-total feed="demo" period="session" by="EUR">: what a feed counts, beside a ticker or alone. All of a page
 * that show the same feed share one connection, the ticker too. docs/EMBEDDING.md has their attributes and parts.
 */

import { Format } from "./format.js";
import { look } from "./look.js";
import { element } from "./rows.js";
import { follow } from "./shared.js";
import { speak } from "./words.js";

/** The gateway that this file came from, or nothing when it was bundled into something else. */
const HOME = /^(https?:.*)\/static\/board\.js(\?.*)?$/.exec(import.meta.url)?.[1];

const CSS = `
:host { display: block; color: var(--_text); font: 500 var(--tipcast-size, 1rem)/1.35 system-ui, sans-serif; text-align: start; }
:host([hidden]) { display: none; }
.panel { padding: var(--tipcast-padding, 0.8em); border-radius: var(--tipcast-radius, 1em); background: var(--tipcast-row, var(--_panel)); }
.title { margin: 0 0 0.4em; font-weight: 700; overflow-wrap: anywhere; }
.title:empty { display: none; }
ol { list-style: none; margin: 0; padding: 0; display: grid; gap: 0.3em; }
li { display: flex; align-items: baseline; gap: 0.6em; min-width: 0; }
.rank { flex: none; min-width: 1.6em; color: var(--_quiet); font-variant-numeric: tabular-nums; }
.name { min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; unicode-bidi: isolate; }
.score { flex: none; margin-inline-start: auto; font-weight: 700; font-variant-numeric: tabular-nums; }
.track { height: 0.9em; border-radius: 99px; background: var(--_line); overflow: hidden; }
.bar { height: 100%; width: 0; border-radius: inherit; background: var(--tipcast-accent, var(--_accent)); transition: width 0.5s ease-out; }
.foot { display: flex; justify-content: space-between; gap: 1em; margin-top: 0.35em; font-variant-numeric: tabular-nums; }
.panel[data-reached] .bar { background: var(--tipcast-reached, #16a34a); }
.value { overflow: visible; overflow-wrap: anywhere; font-size: 1.6em; font-weight: 800; font-variant-numeric: tabular-nums; }
.empty { color: var(--_quiet); }
@media (prefers-reduced-motion: reduce) { .bar { transition: none; } }
`;

let sheet;

function sheets() {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(CSS);
  }
  return [look(), sheet];
}

// Also imported where there is no document, when pages are rendered on a server.
const Base = globalThis.HTMLElement ?? class {};

/** Settings of a board, by attribute or by the property of the same name. `lang` and `hidden` are every element's own. */
const SETTINGS = ["feed", "url", "theme", "period", "by", "goal", "max", "heading"];

/**
 * React 19 sets a property where an element has one of that name, and an attribute where it has none; others always set
 * attributes. So everything that is no setting is private here, and every setting is a property that can be set.
 */
class Board extends Base {
  static observedAttributes = ["lang", "token", ...SETTINGS];

  #feed = null;
  #list = null;
  #token;
  #panel = element("div", "panel");
  #title = element("p", "title");
  /** Draws into the panel; each kind of board has its own. */
  #drawing;

  constructor(drawing) {
    super();
    this.#drawing = drawing;
    this.#panel.append(this.#title);
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = sheets();
    root.append(this.#panel);
  }

  /** A viewer's token, or a function that gives one, see `connect`; while it is not set, the attribute counts. */
  get token() {
    return this.#token ?? this.getAttribute("token") ?? undefined;
  }

  set token(token) {
    this.#token = token ?? undefined;
    if (!this.#feed) return;
    this.disconnectedCallback();
    this.#follow();
  }

  connectedCallback() {
    this.#follow();
  }

  disconnectedCallback() {
    this.#feed?.close();
    this.#feed = this.#list = null;
  }

  attributeChangedCallback(name, before, now) {
    if (!this.#feed || before === now) return;
    if (["feed", "url", "token"].includes(name)) {
      this.disconnectedCallback();
      this.#follow();
    } else this.#draw();
  }

  #follow() {
    const feed = this.getAttribute("feed");
    if (!feed) return;
    const url = this.getAttribute("url") ?? HOME ?? globalThis.location?.origin;
    const token = this.token;
    const as = this.getAttribute("as") ?? undefined;
    this.#feed = follow({ url: new URL(url, document.baseURI).href, feed, token, as, totals: true }, {
      onChange: (list) => {
        this.#list = list;
        this.#draw();
      },
    });
  }

  #draw() {
    if (!this.#list) return;
    const { locale, words } = speak(this.getAttribute("lang") ?? this.closest("[lang]")?.lang);
    this.#drawing(this.#list, { element: this, panel: this.#panel, title: this.#title, format: new Format(locale, words.now) });
  }
}

/** A property for each setting that is its attribute, as `id` and `title` are. */
for (const name of SETTINGS) {
  Object.defineProperty(Board.prototype, name, {
    configurable: true,
    enumerable: true,
    get() {
      return this.getAttribute(name) ?? undefined;
    },
    set(value) {
      if (value === undefined || value === null || value === false) this.removeAttribute(name);
      else this.setAttribute(name, value);
    },
  });
}

const periodOf = (board) => board.getAttribute("period") ?? "session";

export class TipcastLeaders extends Board {
  constructor() {
    const lines = element("ol");
    super(({ totals }, { element: board, panel, title, format }) => {
      const leaders = totals?.[periodOf(board)]?.leaders ?? {};
      const by = board.getAttribute("by") ?? Object.keys(leaders)[0] ?? "units";
      const max = Math.min(10, Math.max(1, Number(board.getAttribute("max")) || 5));
      title.textContent = board.getAttribute("heading") ?? "";
      lines.replaceChildren(...(leaders[by] ?? []).slice(0, max).map((leader) => lineOf(leader, by, format)));
      if (!lines.isConnected) panel.append(lines);
    });
  }
}

function lineOf({ rank, user, score }, by, format) {
  const line = element("li");
  const [place, name, gave] = [element("span", "rank"), element("span", "name"), element("span", "score")];
  place.textContent = format.number(rank);
  // A stranger's name, which may hold anything: text, in a direction of its own.
  name.textContent = user.name;
  name.dir = "auto";
  name.title = user.name;
  gave.textContent = format.amount(by, score);
  line.part = "leader";
  line.append(place, name, gave);
  return line;
}

export class TipcastGoal extends Board {
  constructor() {
    const [track, bar, foot] = [element("div", "track"), element("div", "bar"), element("div", "foot")];
    super(({ goals }, { element: board, panel, title: heading, format }) => {
      const goal = (goals ?? []).find(({ goal }) => goal === board.getAttribute("goal"));
      board.hidden = !goal;
      if (!goal) return;
      const { title, by, target, value, reached_at } = goal;
      // Multiplied first: 570 of 1000 are 57 of 100 then, and no float below.
      const percent = Math.min(100, (value * 100) / target);
      heading.textContent = board.getAttribute("heading") ?? title;
      heading.dir = "auto";
      panel.toggleAttribute("data-reached", Boolean(reached_at));
      track.role = "progressbar";
      track.ariaValueMin = "0";
      track.ariaValueMax = "100";
      track.ariaValueNow = String(Math.floor(percent));
      track.ariaLabel = title;
      bar.style.width = `${percent}%`;
      bar.part = "bar";
      const [have, want] = [element("span"), element("span")];
      have.textContent = format.amount(by, value);
      want.textContent = format.amount(by, target);
      foot.replaceChildren(have, want);
      if (!track.isConnected) {
        track.append(bar);
        panel.append(track, foot);
      }
    });
  }
}

export class TipcastTotal extends Board {
  constructor() {
    const shown = element("div", "value");
    super(({ totals }, { element: board, panel, title, format }) => {
      const total = totals?.[periodOf(board)];
      const by = board.getAttribute("by") ?? "points";
      const counted = { points: total?.points, units: total?.units, gifts: total?.gifts, gifters: total?.gifters };
      const amount = total?.values.find(({ currency }) => currency === by)?.amount;
      const n = by in counted ? counted[by] : amount;
      title.textContent = board.getAttribute("heading") ?? "";
      shown.textContent = by in counted ? format.number(n ?? 0) : format.amount(by, n ?? 0);
      if (!shown.isConnected) panel.append(shown);
    });
  }
}

// A page may load two copies; the first one wins, as with any other element.
const ELEMENTS = { "tipcast-leaders": TipcastLeaders, "tipcast-goal": TipcastGoal, "tipcast-total": TipcastTotal };
const { customElements } = globalThis;
for (const [name, made] of Object.entries(ELEMENTS)) {
  if (customElements && !customElements.get(name)) customElements.define(name, made);
}
