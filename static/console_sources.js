// Where tips come from elsewhere: each source of a feed with its last delivery, and a place to try a sample.

import { $, HOME, make } from "./keyed.js";
import { act, ask, call, destroy, fact, feedPath, link, list, notice, number, onSubmit, screen, since } from "./console_parts.js";
import { edit } from "./console_form.js";
import { giftLine, menu } from "./console_feed.js";
import { offerFeeds } from "./console_feeds.js";
import { words } from "./console_words.js";

let feed = "";
const sourcePath = (name) => `${feedPath(feed)}/sources/${encodeURIComponent(name)}`;

function sourceItem(it) {
  const { source, preset, path, counts, last_at, last_error, last_error_at } = it;
  const address = path ? new URL(`.${path}`, HOME).href : undefined;
  const item = make("li", "", make("div", "name", `${source} `, make("span", "badge", preset)),
    ...(address ? [make("div", "note quiet", `${words.address} ${address} `, act(words.copy, async () => {
      await navigator.clipboard.writeText(address);
      notice(words.copied);
    }, "plain"))] : []),
    make("div", "facts", make("span", "", `${words.last} `, last_at ? since(last_at) : words.never), ...Object.entries(counts).map(([name, n]) => fact(name, number(n)))));
  if (last_error) item.append(make("div", "note bad", `${words.refused} `, last_error_at ? since(last_error_at) : "", `: ${last_error}`));
  item.append(make("div", "acts", act(words.test_sample, () => trySample(source)), menu(act(words.edit, () => editSource(it), "plain"),
    destroy(words.delete, `${words.delete}: ${source}`, [words.deletes_source(source)], async () => {
      await call("DELETE", sourcePath(source));
      notice(words.deleted(source));
      await read();
    }))));
  return item;
}

async function trySample(source) {
  const body = Object.assign(make("textarea", ""), { rows: 8, spellcheck: false, placeholder: words.sample });
  body.setAttribute("aria-label", words.sample);
  const outcome = make("p", "");
  outcome.setAttribute("role", "status");
  await ask({
    title: `${words.test_sample}: ${source}`, body: [make("p", "quiet", words.sample), body, outcome], yes: words.test_sample,
    agree: async () => {
      // A sample that is refused says why, which is what was asked.
      const answer = await call("POST", `${sourcePath(source)}/test`, body.value).catch((error) => error.problem ?? Promise.reject(error));
      outcome.replaceChildren(make("b", "", answer.outcome ?? answer.title ?? ""), " ", ...(answer.gift ? giftLine(answer.gift) : [answer.detail ?? ""]));
      return false;
    },
  });
}

const editSource = (before) => edit({
  title: before ? before.source : `${words.new_source}: ${feed}`, method: "PUT", path: "/v1/feeds/{feed}/sources/{name}", before, named: before ? "" : words.name,
  save: async (value, given) => {
    const source = before?.source ?? given;
    await call("PUT", sourcePath(source), value);
    notice(words.saved(source));
    await read();
  },
});

let looks = "";

async function read(current = () => true) {
  const { sources } = await call("GET", `${feedPath(feed)}/sources`);
  if (!current()) return;
  const now = JSON.stringify(sources);
  if (now !== looks) list($("source-list"), sources.map(sourceItem));
  looks = now;
}

const form = $("source-feed");
onSubmit(form, async ({ feed: of }) => {
  location.hash = screen("sources", [of]);
});
offerFeeds(form.elements.feed);
$("new-source").append(act(words.new_source, () => editSource(), "plain"));

export const sources = {
  every: 5_000,
  open({ parts }) {
    feed = parts[1] ?? "";
    looks = "";
    form.elements.feed.value = feed;
    $("new-source").hidden = !feed;
    $("source-of").replaceChildren(...(feed ? [link(feed, screen("feeds", [feed]))] : []));
    $("source-list").replaceChildren();
  },
  async look(current) {
    if (feed) await read(current);
  },
};
