// A gateway, asked by a backend: gifts, drops, the ledger, and what a host decides.

import { Calls, path, query } from "./calls.js";
import { Consumer } from "./consume.js";

export { EventStore } from "./events.js";
export { BadSignature, Problem, Unavailable } from "./problems.js";
export { Webhook } from "./webhook.js";

/** Gifts of one batch. */
const BATCH = 128;

/** Longer than a claim may wait for entries, in milliseconds. */
const ANSWER = 10_000;

const named = (what) => (what.id === undefined ? { ...what, id: crypto.randomUUID() } : what);

/** Gives an error the ids of what was sent. */
const about = (ids) => (error) => {
  throw typeof error?.about === "function" ? error.about(ids) : error;
};

export class Tipcast {
  #calls;

  constructor(url, options) {
    this.#calls = new Calls(url, options);
  }

  call(method, where, body, more) {
    return this.#calls.call(method, where, body, more);
  }

  // ---------------------------------------------------------------- gifts

  post(feed, gift) {
    const sent = named(gift);
    return this.call("POST", path`/feeds/${feed}/gifts`, sent).catch(about([sent.id]));
  }

  async postAll(feed, gifts) {
    const all = Array.from(gifts, named);
    const results = [];
    for (let from = 0; from < all.length; from += BATCH) {
      const answer = await this.call("POST", path`/feeds/${feed}/gifts/batch`, { gifts: all.slice(from, from + BATCH) }).catch(about(all.map(({ id }) => id)));
      results.push(...answer.results.map((it) => ({ ...it, index: from + it.index })));
    }
    return results;
  }

  story(feed, gift) {
    return this.call("GET", path`/feeds/${feed}/gifts` + query({ id: gift }));
  }

  scheduled(feed) {
    return this.#pages(path`/feeds/${feed}/scheduled`, "scheduled");
  }

  async cancel(feed, gift) {
    await this.call("DELETE", path`/feeds/${feed}/scheduled` + query({ id: gift }));
  }

  async retract(feed, row) {
    await this.call("DELETE", path`/feeds/${feed}/rows/${row}`);
  }

  retractGift(feed, gift, reason) {
    return this.call("POST", path`/feeds/${feed}/gifts/retract` + query({ id: gift }), { reason });
  }

  refund(feed, gift, refunded, reason) {
    return this.call("POST", path`/feeds/${feed}/gifts/refund` + query({ id: gift }), { refunded, reason });
  }

  // ---------------------------------------------------------------- drops

  drops(feed) {
    return this.call("GET", path`/feeds/${feed}/drops`).then((it) => it.drops);
  }

  drop(feed, drop) {
    return this.call("GET", path`/feeds/${feed}/drops/${drop}`);
  }

  putDrop(feed, drop, spec) {
    return this.call("PUT", path`/feeds/${feed}/drops/${drop}`, spec);
  }

  sell(feed, drop, claim) {
    const sent = named(claim);
    return this.call("POST", path`/feeds/${feed}/drops/${drop}/claims`, sent).catch(about([sent.id]));
  }

  sale(feed, drop, claim) {
    return this.call("GET", path`/feeds/${feed}/drops/${drop}/claims` + query({ id: claim }));
  }

  refundSale(feed, drop, claim, refunded, reason) {
    return this.call("POST", path`/feeds/${feed}/drops/${drop}/claims/refund` + query({ id: claim }), { refunded, reason });
  }

  retractSale(feed, drop, claim, reason) {
    return this.call("POST", path`/feeds/${feed}/drops/${drop}/claims/retract` + query({ id: claim }), { reason });
  }

  holds(feed, user) {
    return this.call("GET", path`/feeds/${feed}/users/holds` + query({ user })).then((it) => it.holds);
  }

  confirm(feed, hold) {
    return this.call("POST", path`/feeds/${feed}/holds/${hold}/confirm`);
  }

  async release(feed, hold) {
    await this.call("DELETE", path`/feeds/${feed}/holds/${hold}`);
  }

  // ---------------------------------------------------------------- the ledger

  async claim(feed, group, consumer, { max = 128, wait_ms = 20_000, lease_ms = 30_000, from, signal } = {}) {
    const body = { consumer, max, wait_ms: Math.round(wait_ms), lease_ms, from };
    return (await this.call("POST", path`/feeds/${feed}/groups/${group}/claim`, body, { timeout: wait_ms + ANSWER, signal })).entries;
  }

  ack(feed, group, cursors) {
    return this.call("POST", path`/feeds/${feed}/groups/${group}/ack`, { cursors }).then((it) => it.acked);
  }

  nack(feed, group, cursors) {
    return this.call("POST", path`/feeds/${feed}/groups/${group}/nack`, { cursors }).then((it) => it.nacked);
  }

  seek(feed, group, to) {
    return this.call("POST", path`/feeds/${feed}/groups/${group}/seek`, to).then((it) => it.cursor);
  }

  group(feed, group) {
    return this.call("GET", path`/feeds/${feed}/groups/${group}`);
  }

  groups(feed) {
    return this.call("GET", path`/feeds/${feed}/groups`).then((it) => it.groups);
  }

  async deleteGroup(feed, group) {
    await this.call("DELETE", path`/feeds/${feed}/groups/${group}`);
  }

  deadLetters(feed, group) {
    return this.call("GET", path`/feeds/${feed}/groups/${group}/dead`).then((it) => it.dead);
  }

  replay(feed, group, ids) {
    return this.call("POST", path`/feeds/${feed}/groups/${group}/dead/replay`, { ids }).then((it) => it.replayed);
  }

  consume(feed, group, handle, options) {
    return new Consumer(this, feed, group, handle, options).run();
  }

  ledger(feed, filter = {}) {
    return this.#pages(path`/feeds/${feed}/ledger`, "entries", { limit: 1_000, ...filter });
  }

  summary(feed, between = {}) {
    return this.call("GET", path`/feeds/${feed}/ledger/summary` + query(between));
  }

  // ---------------------------------------------------------------- webhooks

  putWebhook(feed, webhook, spec) {
    return this.call("PUT", path`/feeds/${feed}/webhooks/${webhook}`, spec);
  }

  webhook(feed, webhook) {
    return this.call("GET", path`/feeds/${feed}/webhooks/${webhook}`);
  }

  webhooks(feed) {
    return this.call("GET", path`/feeds/${feed}/webhooks`).then((it) => it.webhooks);
  }

  async deleteWebhook(feed, webhook) {
    await this.call("DELETE", path`/feeds/${feed}/webhooks/${webhook}`);
  }

  // ---------------------------------------------------------------- what a host decides

  feed(feed) {
    return this.call("GET", path`/feeds/${feed}`);
  }

  feeds(prefix = "") {
    return this.#pages("/feeds", "feeds", { prefix, limit: 1_000 });
  }

  policy(feed) {
    return this.call("GET", path`/feeds/${feed}/policy`);
  }

  patchPolicy(feed, changes) {
    return this.call("PATCH", path`/feeds/${feed}/policy`, changes);
  }

  putPolicy(feed, policy) {
    return this.call("PUT", path`/feeds/${feed}/policy`, policy);
  }

  session(feed, id) {
    return this.call("POST", path`/feeds/${feed}/session`, { id });
  }

  review(feed) {
    return this.call("GET", path`/feeds/${feed}/review`).then((it) => it.review);
  }

  decide(feed, gift, action) {
    return this.call("POST", path`/feeds/${feed}/review` + query({ id: gift }), { action });
  }

  blocks(feed) {
    return this.call("GET", path`/feeds/${feed}/blocks`).then((it) => it.blocks);
  }

  block(feed, user, how = {}) {
    return this.call("PUT", path`/feeds/${feed}/blocks` + query({ user }), how);
  }

  async unblock(feed, user) {
    await this.call("DELETE", path`/feeds/${feed}/blocks` + query({ user }));
  }

  retractUser(feed, user) {
    return this.call("DELETE", path`/feeds/${feed}/rows` + query({ user }));
  }

  async control(feed, action, row) {
    await this.call("POST", path`/feeds/${feed}/control`, { action, row });
  }

  goals(feed) {
    return this.call("GET", path`/feeds/${feed}/goals`).then((it) => it.goals);
  }

  goal(feed, goal) {
    return this.call("GET", path`/feeds/${feed}/goals/${goal}`);
  }

  putGoal(feed, goal, spec) {
    return this.call("PUT", path`/feeds/${feed}/goals/${goal}`, spec);
  }

  async deleteGoal(feed, goal) {
    await this.call("DELETE", path`/feeds/${feed}/goals/${goal}`);
  }

  totals(feed, back) {
    return this.call("GET", path`/feeds/${feed}/totals` + query({ back }));
  }

  leaders(feed, how = {}) {
    return this.call("GET", path`/feeds/${feed}/leaders` + query(how));
  }

  presence(feed) {
    return this.call("GET", path`/feeds/${feed}/presence`);
  }

  async revoke(viewer, before) {
    await this.call("POST", "/viewers/revoke" + query({ sub: viewer }), { before });
  }

  /** Every item of a list that comes in pages. */
  async *#pages(where, field, filter = {}) {
    let after = filter.after;
    do {
      const page = await this.call("GET", where + query({ ...filter, after }));
      yield* page[field];
      after = page.next ?? undefined;
    } while (after !== undefined);
  }
}
