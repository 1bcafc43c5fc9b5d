// React, Vue and Svelte, against a real gateway.

import assert from "node:assert/strict";
import test from "node:test";
import { createElement } from "react";
import { renderToString } from "react-dom/server";
import renderer from "react-test-renderer";
import { effectScope, ref } from "vue";
import WebSocket from "ws";
import { Ticker, useFeed } from "tipcast/react";
import { feed as feedStore } from "tipcast/svelte";
import { useFeed as useFeedOfVue } from "tipcast/vue";
import { Gateway, until } from "./gateway.mjs";

globalThis.IS_REACT_ACT_ENVIRONMENT = false;
const rose = (name) => ({ user: { id: name.toLowerCase(), name }, gift: { id: "rose", name: "Rose" } });

test("React: a feed is state, another feed connects anew, and leaving closes it", async (t) => {
  const gateway = await Gateway.start(t);
  await gateway.post("one", rose("Mia"));
  await gateway.post("two", rose("Jules"));
  const states = [];
  function List({ feed }) {
    const { rows, state } = useFeed({ url: gateway.url, feed, WebSocket, onState: (it) => states.push(it) });
    return createElement("ol", { "data-state": state }, rows.map((row) => createElement("li", { key: row.row }, row.user.name)));
  }
  const page = renderer.create(createElement(List, { feed: "one" }));
  const names = () => (page.toJSON()?.children ?? []).map((it) => it.children[0]);
  await until("the list", () => names()[0] === "Mia");
  await gateway.post("one", rose("Kim"));
  await until("the change", () => names().join() === "Kim,Mia");
  assert.equal(page.toJSON().props["data-state"], "live");
  page.update(createElement(List, { feed: "two" }));
  await until("the other feed", () => names().join() === "Jules");
  page.unmount();
  await until("the end", () => states.at(-1) === "closed");
});

test("React: a page with a ticker is rendered on a server", () => {
  assert.equal(renderToString(createElement(Ticker, { feed: "show", max: 5, className: "a" })), '<tipcast-ticker feed="show" max="5" class="a"></tipcast-ticker>');
});

test("Vue: a feed is a ref, which follows its options, until the scope ends", async (t) => {
  const gateway = await Gateway.start(t);
  await gateway.post("one", rose("Mia"));
  await gateway.post("two", rose("Jules"));
  const name = ref("one");
  const states = [];
  const scope = effectScope();
  const shown = scope.run(() => useFeedOfVue(() => ({ url: gateway.url, feed: name.value, WebSocket, onState: (it) => states.push(it) })));
  await until("the list", () => shown.value.rows[0]?.user.name === "Mia" && shown.value.state === "live");
  name.value = "two";
  await until("the other feed", () => shown.value.rows[0]?.user.name === "Jules");
  scope.stop();
  await until("the end", () => states.at(-1) === "closed");
});

test("Svelte: a feed is a store, which connects with the first subscriber and closes with the last", async (t) => {
  const gateway = await Gateway.start(t);
  await gateway.post("show", rose("Mia"));
  const states = [];
  const show = feedStore({ url: gateway.url, feed: "show", WebSocket, onState: (it) => states.push(it) });
  assert.deepEqual(states, []);
  const seen = [];
  const ends = [show.subscribe((it) => (seen[0] = it)), show.subscribe((it) => (seen[1] = it))];
  await until("both", () => seen.every((it) => it.rows[0]?.user.name === "Mia"));
  ends[0]();
  assert.notEqual(states.at(-1), "closed");
  ends[1]();
  await until("the end", () => states.at(-1) === "closed");
});
