// Deliveries of a webhook (Standard Webhooks): are they from the gateway, and what is in them.

import { createHmac, timingSafeEqual } from "node:crypto";
import { BadSignature, known } from "./problems.js";

/** Signatures that are looked at: the gateway sends one for each secret that holds; a stranger may send any number. */
const SIGNATURES = 8;

export class Webhook {
  #keys;
  #tolerance;

  constructor(secrets, options = {}) {
    known(options, ["tolerance"], "Webhook");
    const all = [secrets].flat();
    if (!all.length || !all.every((secret) => /^(whsec_)?[A-Za-z0-9+/]{16,}={0,2}$/.test(secret ?? ""))) throw new TypeError("a webhook has at least one secret, whsec_…");
    this.#keys = all.map((secret) => Buffer.from(secret.replace(/^whsec_/, ""), "base64"));
    this.#tolerance = options.tolerance ?? 300_000;
  }

  /** See the types for what it promises. */
  read(headers, body, now = Date.now()) {
    const given = (name) => (typeof headers.get === "function" ? headers.get(name) : headers[name] ?? headers[Object.keys(headers).find((it) => it.toLowerCase() === name)]);
    const [id, stamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(given);
    if (!id || !/^\d{1,12}$/.test(stamp ?? "") || !signatures) throw new BadSignature("the headers webhook-id, webhook-timestamp and webhook-signature are not all there");
    const age = Math.abs(now - 1_000 * Number(stamp));
    if (age > this.#tolerance) throw new BadSignature(`its timestamp is ${Math.round(age / 1_000)} s away: it is old, or one of the two clocks is wrong`);
    if (typeof body !== "string" && !(body instanceof Uint8Array)) throw new TypeError("give the body as it came, as bytes or text, before anything parses it");
    const came = String(signatures).split(" ").filter((it) => it.startsWith("v1,")).slice(0, SIGNATURES).map((it) => Buffer.from(it.slice(3), "base64"));
    const fits = this.#keys.map((key) => {
      const wanted = createHmac("sha256", key).update(`${id}.${stamp}.`).update(body).digest();
      // Each is compared, in the same time whatever they are.
      return came.filter((it) => it.length === wanted.length && timingSafeEqual(it, wanted)).length;
    });
    if (!fits.some(Boolean)) throw new BadSignature("no signature fits: the secret is another one, or the body is not as it came");
    const delivery = JSON.parse(typeof body === "string" ? body : Buffer.from(body).toString("utf8"));
    return delivery.test ? { ...delivery, entries: [] } : delivery;
  }
}
