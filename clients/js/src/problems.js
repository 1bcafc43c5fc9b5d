// What goes wrong, for the program that calls: a refusal, or no answer.

class Failed extends Error {
  /**
   * The ids of the gifts that were sent, in their order, also those that were made here. Send each again with its id: what
   * was taken already is not taken twice.
   */
  ids = [];

  /** The id of the gift or claim that was sent, where it was one. */
  get id() {
    return this.ids.length === 1 ? this.ids[0] : undefined;
  }

  /** With these ids, which the message names too. */
  about(ids) {
    this.ids = ids;
    const more = ids.length > 1 ? ` and ${ids.length - 1} more` : "";
    this.message += ` (id ${ids[0]}${more})`;
    return this;
  }
}

/** A refusal (RFC 9457). Sending the same again is of no use. */
export class Problem extends Failed {
  name = "Problem";

  constructor(status, body) {
    const { type = "about:blank", title = "", detail = title, errors = [] } = body;
    super(`${status} ${type}: ${detail}${errors.map((it) => `; ${it.pointer}: ${it.detail}`).join("")}`);
    Object.assign(this, { status, type, title, detail, errors, body });
  }
}

/** No answer after the last retry. Nothing is half-written: the same call, with the same ids, is safe later. */
export class Unavailable extends Failed {
  name = "Unavailable";
}

/** Not from this gateway, or too old: answer 401 and do nothing. */
export class BadSignature extends Error {
  name = "BadSignature";
}

/** Refuses options whose names nobody knows, which are mostly misspelt. */
export function known(given, names, of) {
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown !== undefined) throw new TypeError(`${of} has no option "${unknown}"; there are ${names.join(", ")}`);
}
