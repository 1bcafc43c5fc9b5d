// On React Native: its URL can be read in parts only and never changed, and there is no document and no location.

import assert from "node:assert/strict";
import { test } from "node:test";

import { connect, feedUrl } from "../dist/client.js";

/** As react-native/Libraries/Blob/URL.js: what it does not have throws. */
class NativeURL {
  #href;

  constructor(href) {
    this.#href = String(href);
  }

  get href() {
    return this.#href;
  }

  toString() {
    return this.#href;
  }
}
for (const name of ["host", "hostname", "port", "protocol", "pathname", "origin", "search", "hash"]) {
  const refuse = () => {
    throw new Error(`URL.${name} is not implemented`);
  };
  Object.defineProperty(NativeURL.prototype, name, { get: refuse, set: refuse });
}

/** A socket that only notes where it would lead. */
class Socket {
  static opened = [];
  readyState = 0;

  constructor(url) {
    Socket.opened.push(url);
  }

  close() {
    this.onclose?.({ code: 1000, reason: "" });
  }
}

test("addresses are made without changing a URL", () => {
  const before = globalThis.URL;
  globalThis.URL = NativeURL;
  try {
    assert.equal(feedUrl("https://g.example/tips/", "ws", { feed: "show" }), "wss://g.example/tips/v1/feeds/show/ws");
    assert.equal(feedUrl("HTTP://[::1]:8080?x#y", "sse", { feed: "a.b", since: "e:1", as: "overlay" }), "http://[::1]:8080/v1/feeds/a.b/sse?since=e%3A1&as=overlay");
    for (const wrong of ["g.example", "/tips", "ftp://g.example", "https://", ""]) assert.throws(() => feedUrl(wrong, "ws", { feed: "f" }), TypeError);
    const connection = connect({ url: "https://g.example", feed: "show", token: "t", WebSocket: Socket });
    assert.deepEqual(Socket.opened, ["wss://g.example/v1/feeds/show/ws?token=t"]);
    connection.close();
  } finally {
    globalThis.URL = before;
  }
});
