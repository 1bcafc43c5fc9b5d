/**
 * What the pages share that ask for a key, the host's desk and the reports: the key of this tab, calls that carry it,
 * the form that asks for it, and elements that are made of texts.
 */

/** After how long without an answer a call is given up, in milliseconds. */
export const PATIENCE = 8_000;

/** Where the gateway is: behind a proxy it may have a path in front of all of its own. */
export const HOME = new URL("../", import.meta.url).href;

export const $ = (id) => document.getElementById(id);
export const lang = document.documentElement.lang === "zh" ? "zh" : "en";

/** An element with a class, and texts or elements in it. Text is never read as markup. */
export function make(tag, className, ...parts) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...parts);
  return element;
}

/** How the page stands to the gateway: "live", "away" or "waiting", and what it says about it. */
export function state(name, text) {
  $("state").dataset.state = name;
  $("state").textContent = text;
}

/** The key of this tab: it is kept in the tab's session storage until the tab is closed, and sent as a header. */
export class Key {
  #kept;
  #value;

  /** `kept`: under which name it is kept. */
  constructor(kept) {
    this.#kept = kept;
    // What is behind # never leaves the browser; it goes from the address, which people copy and share.
    const given = new URLSearchParams(location.hash.slice(1)).get("key");
    if (given) history.replaceState(null, "", location.pathname + location.search);
    let before = null;
    try {
      before = sessionStorage.getItem(kept);
    } catch {
      // Storage is forbidden here: it is asked for after a reload.
    }
    this.keep(given ?? before ?? "");
  }

  get value() {
    return this.#value;
  }

  /** From now on; "" forgets it. */
  keep(value) {
    this.#value = value;
    try {
      if (value) sessionStorage.setItem(this.#kept, value);
      else sessionStorage.removeItem(this.#kept);
    } catch {
      // Asked for again after a reload.
    }
  }

  /** Calls the API. A refusal is an error with the answer's `status` and its JSON as `problem`; no answer has no status. */
  async call(method, path, body, options = {}) {
    const text = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
    const headers = text === undefined ? {} : { "content-type": "application/json" };
    if (this.#value) headers.authorization = `Bearer ${this.#value}`;
    const answer = await fetch(new URL(`.${path}`, HOME), {
      method, headers, body: text, cache: "no-store", signal: AbortSignal.timeout(PATIENCE), ...options,
    });
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw Object.assign(new Error(said.detail ?? said.title ?? `${answer.status}`), { status: answer.status, problem: said });
    return said;
  }

  /** Shows the board, or the form that asks for a key in its place, with the reason if there is one. */
  show(open, why = "") {
    $("board").hidden = !open;
    $("unlock").hidden = open;
    $("forget").hidden = !open || !this.#value;
    $("refused").textContent = why;
    if (open) return;
    state("waiting", "");
    $("key").focus();
  }

  /**
   * Forgets a key that was refused, and asks for another. `wrong` is what is said about it; nothing is said when none
   * was tried.
   */
  refused(wrong) {
    const tried = this.#value !== "";
    this.keep("");
    this.show(false, tried ? wrong : "");
  }

  /** Calls `open` when somebody gives a key, and `closed` when it is to be forgotten. Begins with one of the two. */
  guard(open, closed) {
    $("unlock").addEventListener("submit", (event) => {
      event.preventDefault();
      this.keep($("key").value.trim());
      $("key").value = "";
      $("refused").textContent = "";
      open();
    });
    const lock = () => {
      closed();
      this.keep("");
      this.show(false);
    };
    $("forget").addEventListener("click", lock);
    if (document.body.dataset.locked === "true" && !this.#value) lock();
    else open();
  }
}
