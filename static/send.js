// The demo page's desk: what it offers, and posting it.

/** Where the gateway is: behind a proxy it may have a path in front of all of its own. */
export const HOME = new URL("../", import.meta.url).href;

/** What the form offers; prices in coins. */
export const GIFTS = [
  { id: "rose", en: "Rose", zh: "玫瑰", price: 1, tier: 0 },
  { id: "coffee", en: "Coffee", zh: "咖啡", price: 5, tier: 1 },
  { id: "heart", en: "Heart", zh: "爱心", price: 10, tier: 2 },
  { id: "cake", en: "Cake", zh: "蛋糕", price: 50, tier: 3 },
  { id: "fireworks", en: "Fireworks", zh: "烟花", price: 199, tier: 4 },
  { id: "crown", en: "Crown", zh: "皇冠", price: 520, tier: 6 },
  { id: "rocket", en: "Rocket", zh: "火箭", price: 1314, tier: 8 },
  { id: "castle", en: "Castle", zh: "城堡", price: 5200, tier: 9 },
];

/** Who comes to a burst. */
const CROWD = ["Mia", "小明", "Zoë", "さくら", "Noah", "박서연", "محمد", "Łukasz", "Priya", "שרה", "Дмитрий", "爱吃西瓜的猫"];

/** A burst: this many posts, this far apart in milliseconds, of this many gifts each. */
const BURST_POSTS = 16;
const BURST_GAP = 140;
const BURST_EACH = 4;

const TRIES = 4;

/** Random letters that need no secure context, unlike crypto.randomUUID. */
export function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const pick = (list) => list[Math.floor(Math.random() * list.length)];

/** Why a call did not succeed: `locked` wants a key, `away` and `busy` a later try; `type` is the problem's. */
export class Refusal extends Error {
  constructor(kind, message, type) {
    super(message);
    Object.assign(this, { kind, type });
  }
}

/** Posts until there is an answer: the ids make a second try harmless. */
export function post(path, body, key) {
  return call("POST", path, body, key);
}

/** Calls until there is an answer, with or without a body. */
export async function call(method, path, body, key) {
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  if (key) headers.authorization = `Bearer ${key}`;
  for (let tries = 1; ; tries += 1) {
    let answer;
    try {
      answer = await fetch(new URL(`.${path}`, HOME), { method, headers, body: JSON.stringify(body), signal: AbortSignal.timeout(8_000) });
    } catch (error) {
      if (tries === TRIES) throw new Refusal("away", error.message);
    }
    if (answer && answer.status !== 429 && answer.status !== 503) {
      const told = await answer.json().catch(() => ({}));
      if (answer.ok) return told;
      if (answer.status === 401 || answer.status === 403) throw new Refusal("locked", told.detail ?? told.title);
      const faults = (told.errors ?? []).map((fault) => `${fault.pointer} ${fault.detail}`);
      throw new Refusal("refused", faults.join("; ") || told.detail || told.title || `HTTP ${answer.status}`, told.type);
    }
    if (tries === TRIES) throw new Refusal("busy", "");
    const asked = Number(answer?.headers.get("retry-after")) * 1000;
    await pause(Math.min(asked || 500 * 2 ** tries, 5_000));
  }
}

/** The gift of the catalogue as a producer writes it. */
export function gift({ id, name }, kind, lang, { count, message, test, delay }) {
  return {
    id: randomId(),
    user: { id, name },
    gift: { id: kind.id, name: kind[lang] },
    count,
    value: { amount: kind.price * count, currency: "COIN" },
    message: message || undefined,
    tier: kind.tier || undefined,
    test: test || undefined,
    delay_ms: delay || undefined,
  };
}

/** A crowd that gives all at once: batches, one after the other. */
export async function burst(path, lang, test, key) {
  const crowd = CROWD.map((name, n) => ({ id: `crowd-${n}`, name }));
  // The same few again and again, so that combos grow; dear ones seldom.
  const giving = Array.from({ length: 7 }, () => [pick(crowd), GIFTS[Math.floor(Math.random() ** 2 * GIFTS.length)]]);
  for (let n = 0; n < BURST_POSTS; n += 1) {
    const one = () => {
      const [viewer, kind] = pick(giving);
      return gift(viewer, kind, lang, { count: pick([1, 1, 1, 2, 5]), test });
    };
    await post(`${path}/batch`, { gifts: Array.from({ length: BURST_EACH }, one) }, key);
    await pause(BURST_GAP);
  }
  return BURST_POSTS * BURST_EACH;
}
