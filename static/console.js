// The console: one screen at a time, each with an address of its own behind #, and each read anew as often as it says.

import { $, state } from "./keyed.js";
import { key, notice } from "./console_parts.js";
import { access } from "./console_access.js";
import { feed } from "./console_feed.js";
import { feeds } from "./console_feeds.js";
import { gift } from "./console_gift.js";
import { ledger } from "./console_ledger.js";
import { overview } from "./console_overview.js";
import { readers } from "./console_readers.js";
import { sources } from "./console_sources.js";
import { words } from "./console_words.js";

/**
 * Screens by name. One has `open(place)` and, where it has to: `look(current)`, which reads and draws unless `current()` is
 * false by then, `every` how many milliseconds it is called again, and `close()`.
 */
const SCREENS = { overview, feeds, feed, gift, ledger, readers, sources, access };

/** What is behind #: `#/ledger/show?type=drop.sold` is `{parts: ["ledger", "show"], query}`. */
function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  let parts;
  try {
    parts = path.split("/").map(decodeURIComponent);
  } catch {
    parts = [];
  }
  // A list of feeds and one feed share their beginning, as in the API.
  const name = parts[0] === "feeds" && parts[1] ? "feed" : parts[0];
  return { name: Object.hasOwn(SCREENS, name) ? name : "overview", parts, query: new URLSearchParams(query) };
}

/** What is running or comes next; another screen or key makes it void. */
let turn = 0;
let shown = null;

function open() {
  leave();
  const mine = turn;
  const current = () => mine === turn;
  const at = place();
  shown = SCREENS[at.name];
  for (const element of document.querySelectorAll("[data-screen]")) element.hidden = element.dataset.screen !== at.name;
  const entry = at.name === "feed" ? "feeds" : at.name;
  for (const element of document.querySelectorAll("#screens a")) {
    if (element.hash === `#/${entry}`) element.setAttribute("aria-current", "page");
    else element.removeAttribute("aria-current");
  }
  notice("");
  let opened = false;
  const look = async () => {
    try {
      // Whether the key is good is known before anything is shown.
      if (!opened) await key.call("GET", "/v1/nodes");
      if (!current()) return;
      key.show(true);
      if (!opened) shown.open(at);
      opened = true;
      await shown.look?.(current);
      if (current()) state("live", words.live);
    } catch (error) {
      if (!current()) return;
      if (error.status === 401 || (error.status === 403 && !opened)) {
        leave();
        return key.refused(words.wrong);
      }
      if (error.status === 403) notice(error.message, true);
      else state("away", error.problem?.type === "/problems/feed-damaged" ? words.damaged : error.status ? error.message : words.away);
    }
    if (current() && (shown.every || !opened)) setTimeout(() => current() && look(), shown.every ?? 2_000);
  };
  void look();
}

function leave() {
  turn += 1;
  shown?.close?.();
  shown = null;
}

addEventListener("hashchange", () => $("unlock").hidden && open());
key.guard(open, leave);
