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

/** The gateway that this file came from, or none when it was bundled into something else. */
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

class Board extends Base {
  static observedAttributes = ["feed", "url", "token", "lang", "period", "by", "goal", "max", "heading"];

  #feed = null;
  #list = null;

  constructor() {
    super();
    this.panel = element("div", "panel");
    this.heading = element("p", "title");
    this.panel.part = "panel";
    this.heading.part = "title";
    this.panel.append(this.heading);
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = sheets();
    root.append(this.panel);
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
    const token = this.getAttribute("token") ?? undefined;
    const as = this.getAttribute("as") ?? undefined;
    this.#feed = follow({ url: new URL(url, document.baseURI).href, feed, token, as, totals: true }, {
      onChange: (list) => {
        this.#list = list;
        this.#draw();
      },
    });
  }

  #draw() {
    const { locale, words } = speak(this.getAttribute("lang") ?? this.closest("[lang]")?.lang);
    this.format = new Format(locale, words.now);
    this.words = words;
    if (this.#list) this.draw(this.#list);
  }

  get period() {
    return this.getAttribute("period") ?? "session";
  }
}

export class TipcastLeaders extends Board {
  #list = element("ol");

  draw({ totals }) {
    const leaders = totals?.[this.period]?.leaders ?? {};
    const by = this.getAttribute("by") ?? Object.keys(leaders)[0] ?? "units";
    const max = Math.min(10, Math.max(1, Number(this.getAttribute("max")) || 5));
    this.heading.textContent = this.getAttribute("heading") ?? "";
    this.#list.replaceChildren(
      ...(leaders[by] ?? []).slice(0, max).map(({ rank, user, score }) => {
        const line = element("li");
        const [place, name, gave] = [element("span", "rank"), element("span", "name"), element("span", "score")];
        place.textContent = this.format.number(rank);
        // A stranger's name, which may hold anything: text, in a direction of its own.
        name.textContent = user.name;
        name.dir = "auto";
        name.title = user.name;
        gave.textContent = this.format.amount(by, score);
        line.part = "leader";
        line.append(place, name, gave);
        return line;
      }),
    );
    if (!this.#list.isConnected) this.panel.append(this.#list);
  }
}

export class TipcastGoal extends Board {
  #track = element("div", "track");
  #bar = element("div", "bar");
  #foot = element("div", "foot");

  draw({ goals }) {
    const goal = (goals ?? []).find(({ goal }) => goal === this.getAttribute("goal"));
    this.hidden = !goal;
    if (!goal) return;
    const { title, by, target, value, reached_at } = goal;
    // Multiplied first: 570 of 1000 are 57 of 100 then, and no float below.
    const percent = Math.min(100, (value * 100) / target);
    this.heading.textContent = this.getAttribute("heading") ?? title;
    this.heading.dir = "auto";
    this.panel.toggleAttribute("data-reached", Boolean(reached_at));
    this.#track.role = "progressbar";
    this.#track.ariaValueMin = "0";
    this.#track.ariaValueMax = "100";
    this.#track.ariaValueNow = String(Math.floor(percent));
    this.#track.ariaLabel = title;
    this.#bar.style.width = `${percent}%`;
    this.#bar.part = "bar";
    const [have, want] = [element("span"), element("span")];
    have.textContent = this.format.amount(by, value);
    want.textContent = this.format.amount(by, target);
    this.#foot.replaceChildren(have, want);
    if (!this.#track.isConnected) {
      this.#track.append(this.#bar);
      this.panel.append(this.#track, this.#foot);
    }
  }
}

export class TipcastTotal extends Board {
  #value = element("div", "value");

  draw({ totals }) {
    const total = totals?.[this.period];
    const by = this.getAttribute("by") ?? "points";
    const counted = { points: total?.points, units: total?.units, gifts: total?.gifts, gifters: total?.gifters };
    const amount = total?.values.find(({ currency }) => currency === by)?.amount;
    const n = by in counted ? counted[by] : amount;
    this.heading.textContent = this.getAttribute("heading") ?? "";
    this.#value.textContent = by in counted ? this.format.number(n ?? 0) : this.format.amount(by, n ?? 0);
    if (!this.#value.isConnected) this.panel.append(this.#value);
  }
}

// A page may load two copies; the first one wins, as with any other element.
const ELEMENTS = { "tipcast-leaders": TipcastLeaders, "tipcast-goal": TipcastGoal, "tipcast-total": TipcastTotal };
const { customElements } = globalThis;
for (const [name, made] of Object.entries(ELEMENTS)) {
  if (customElements && !customElements.get(name)) customElements.define(name, made);
}
