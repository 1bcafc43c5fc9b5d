// The first page's show: totals, leaders and goals as they stand, and the few deeds that begin one.

import "./board.js";
import { follow } from "./shared.js";
import { HOME, call } from "./send.js";

/** Goals on screen. */
const MOST = 3;
/** What the button counts: the currencies of this page and of `tipcast demo`. */
const POINTS = { COIN: 1, coins: 1, EUR: 1, USD: 1 };
const TARGET = 2_000;
/** How long a gift waits for a host before it is shown without its words, in milliseconds. */
const REVIEWED_WITHIN = 30_000;

const SAID = {
  en: {
    goal: "Tonight", started: "Give, and it fills.", reviewed: "Messages wait at the desk now.",
    free: "Nothing waits any more.", refunded: "Taken back.",
  },
  zh: {
    goal: "今晚的目标", started: "送礼物，进度就会增长。", reviewed: "现在留言会先在主播台等待。",
    free: "不再需要等待。", refunded: "已撤回。",
  },
};

/** Fills `root`. `deed(button, act)` runs what a button does and shows its outcome; `secret` is a viewer's token. */
export class Show {
  #said;
  /** The id of the gift that was sent from here last. */
  #last = null;

  constructor({ root, feed, lang, deed, secret }) {
    Object.assign(this, { root, feed, deed });
    this.base = `/v1/feeds/${encodeURIComponent(feed)}`;
    this.#said = SAID[lang];
    this.goals = root.querySelector(".goals");
    this.review = root.querySelector("#review");
    this.refund = root.querySelector("#refund");
    const start = root.querySelector(".show-start");
    start.addEventListener("click", () => this.deed(start, (key) => this.#start(key)));
    this.review.addEventListener("change", () => this.deed(this.review, (key) => this.#review(key)));
    this.refund.addEventListener("click", () => this.deed(this.refund, (key) => this.#refund(key)));
    if (secret) for (const shown of root.querySelectorAll("[feed]")) shown.setAttribute("token", secret);
    follow({ url: HOME, feed, token: secret, totals: true }, { onChange: (list) => this.#draw(list) });
  }

  /** What was answered to a gift that was sent from here. */
  sent({ id }) {
    this.#last = id;
    this.refund.disabled = false;
  }

  /** Whether messages wait, as the feed's policy says; unknown where that needs a key. */
  async recall(key) {
    const { review } = await call("GET", `${this.base}/policy`, undefined, key);
    this.review.checked = review !== "off";
  }

  #draw({ totals, goals }) {
    const shown = goals.slice(0, MOST).map(({ goal }) => goal);
    const there = [...this.goals.children];
    if (there.map((one) => one.getAttribute("goal")).join() !== shown.join()) {
      this.goals.replaceChildren(...shown.map((name) => {
        const one = there.find((known) => known.getAttribute("goal") === name) ?? document.createElement("tipcast-goal");
        one.setAttribute("goal", name);
        one.setAttribute("feed", this.feed);
        return one;
      }));
    }
    const periods = Object.keys(totals);
    const period = totals.session ? "session" : periods[0];
    for (const one of this.root.querySelectorAll("tipcast-leaders, tipcast-total")) {
      if (period && one.getAttribute("period") !== period) one.setAttribute("period", period);
    }
    this.root.dataset.counts = String(periods.length > 0);
    this.root.querySelector(".show-empty").hidden = periods.length > 0 && shown.length > 0;
  }

  async #start(key) {
    const { totals, points } = await call("GET", `${this.base}/policy`, undefined, key);
    const policy = { totals: [...new Set([...totals, "session"])] };
    if (Object.keys(points).length === 0) policy.points = POINTS;
    await call("PATCH", `${this.base}/policy`, policy, key);
    const goal = { title: this.#said.goal, period: "session", by: "points", target: TARGET };
    await call("PUT", `${this.base}/goals/tonight`, goal, key);
    return this.#said.started;
  }

  async #review(key) {
    const wanted = this.review.checked;
    try {
      const policy = wanted ? { review: "messages", review_timeout_ms: REVIEWED_WITHIN } : { review: "off" };
      await call("PATCH", `${this.base}/policy`, policy, key);
    } catch (error) {
      this.review.checked = !wanted;
      throw error;
    }
    return wanted ? this.#said.reviewed : this.#said.free;
  }

  async #refund(key) {
    const id = this.#last;
    await call("POST", `${this.base}/gifts/retract?id=${encodeURIComponent(id)}`, undefined, key);
    // A second time would be the same answer: it rests until the next gift.
    if (this.#last === id) setTimeout(() => (this.refund.disabled = this.#last === id));
    return this.#said.refunded;
  }
}
