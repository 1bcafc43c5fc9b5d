/** Numbers, money and times as people of one locale write them. */

/** Currencies of the world, whose minor units Intl knows; others are play money. */
const REAL = new Set(globalThis.Intl?.supportedValuesOf?.("currency") ?? []);

/** Relative times, in seconds: from where on the next larger unit is used. */
const UNITS = [
  ["second", 60, 1],
  ["minute", 3600, 60],
  ["hour", 86_400, 3600],
  ["day", Infinity, 86_400],
];

/** Younger than this is "now", in milliseconds. */
const NOW = 5_000;

export class Format {
  #money = new Map();

  constructor(locale, now) {
    this.locale = locale;
    this.now = now;
    this.numbers = new Intl.NumberFormat(locale);
    this.short = new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 });
    this.times = new Intl.RelativeTimeFormat(locale, { numeric: "always", style: "narrow" });
    this.clock = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" });
  }

  number(n) {
    return this.numbers.format(n);
  }

  /** Units of a gift: whole up to 99 999, then 1.2M and the like, so that they stay readable. */
  count(n) {
    return n < 100_000 ? this.number(n) : this.short.format(n);
  }

  /** Minor units as money where the currency is one of the world's, else as a plain number. */
  money({ amount, currency }) {
    const format = this.#currency(currency);
    if (!format) return `${this.number(amount)} ${currency}`;
    return format.format(amount / 10 ** format.resolvedOptions().maximumFractionDigits);
  }

  /** An amount by what is counted: points and units are numbers, else it is minor units of that currency. */
  amount(by, n) {
    return by === "points" || by === "units" ? this.number(n) : this.money({ amount: n, currency: by });
  }

  #currency(code) {
    if (!REAL.has(code)) return undefined;
    let format = this.#money.get(code);
    if (!format) {
      format = new Intl.NumberFormat(this.locale, { style: "currency", currency: code });
      this.#money.set(code, format);
    }
    return format;
  }

  /** How long ago, `ms` in milliseconds; clocks that disagree never make it the future. */
  ago(ms) {
    if (!(ms >= NOW)) return this.now;
    const seconds = ms / 1000;
    const [unit, , size] = UNITS.find(([, until]) => seconds < until);
    return this.times.format(-Math.floor(seconds / size), unit);
  }

  moment(stamp) {
    const at = new Date(stamp);
    return Number.isNaN(at.getTime()) ? stamp : this.clock.format(at);
  }
}
