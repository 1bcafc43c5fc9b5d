// The overlay for OBS and the like: transparent, silent unless a sound is asked for, and never in need of a hand.

import { Alerts, Standing } from "./alerts.js";
import { connect } from "./connect.js";
import { Format } from "./format.js";
import { look } from "./look.js";
import { Rows } from "./rows.js";
import { Sound, soundOf } from "./sound.js";
import { speak } from "./words.js";

const LAYOUTS = ["alerts", "list", "bar"];
const THEMES = ["dark", "light", "auto"];

/** Where the gateway is: behind a proxy it may have a path in front of all of its own. */
const HOME = new URL("../", import.meta.url).href;
const wishes = new URLSearchParams(location.search);
// What is behind # never leaves the browser, so it is in nobody's log.
const secrets = new URLSearchParams(location.hash.slice(1));
const feed = document.body.dataset.feed;

/** A wish out of range is not worth an error on a stream: it is logged to the console and ignored. */
function among(name, choices) {
  const wish = wishes.get(name);
  if (wish === null || choices.includes(wish)) return wish ?? choices[0];
  console.warn(`overlay: ${name} is one of ${choices.join(", ")}`);
  return choices[0];
}

function number(name, least, most, otherwise) {
  const wish = wishes.get(name);
  if (wish === null) return otherwise;
  const value = Number(wish);
  if (wish.trim() !== "" && value >= least && value <= most) return value;
  console.warn(`overlay: ${name} is a number from ${least} to ${most}`);
  return otherwise;
}

const seconds = (name, least, most, otherwise) => number(name, least, most, otherwise) * 1000;

const layout = among("layout", LAYOUTS);
const theme = among("theme", THEMES);
const max = Math.floor(number("max", 1, 50, layout === "list" ? 10 : 5));
const hideAfter = seconds("hide_after", 0, 86_400, layout === "list" ? 0 : 8);
const maxAge = seconds("max_age", 1, 86_400, 60);
const reloadAfter = seconds("reload_after", 1, 86_400, 180);
const volume = number("volume", 0, 1, 0.6);
const sound = soundWished();

/** A sound for each alert, where one is asked for: `chime`, or a file of this host or of https. */
function soundWished() {
  const wish = wishes.get("sound");
  if (wish === null || wish === "off" || layout === "list") return null;
  const source = soundOf(wish);
  if (source === null) console.warn("overlay: sound is off, chime, a path of this host or an https address");
  return source && new Sound(source, volume);
}

const { locale, words } = speak(wishes.get("lang"));
document.documentElement.lang = locale;
document.documentElement.dataset.theme = theme;
document.body.dataset.layout = layout;
document.adoptedStyleSheets = [look()];

/** The gateway's clock minus ours, as of the start; corrected by later frames. */
let ahead = null;
let connection = null;
let heardAt = Date.now();
const serverNow = () => Math.max(Date.now() + (ahead ?? 0), connection?.serverTime() ?? 0);

/** How far the gateway's clock is from ours; nothing when it does not say. */
async function readClock() {
  const asked = Date.now();
  const answer = await fetch(`${HOME}v1/feeds/${encodeURIComponent(feed)}`, { cache: "no-store", signal: AbortSignal.timeout(3_000) });
  const { server_time } = await answer.json();
  const offset = Date.parse(server_time) - (asked + Date.now()) / 2;
  if (Number.isFinite(offset)) ahead = offset;
}

await readClock().catch(() => {});

const begun = ahead === null ? Infinity : performance.timeOrigin + ahead;
const shown = layout === "list" ? new Standing({ max, hideAfter }) : new Alerts({ max, maxAge, hideAfter, begun });
const format = new Format(locale, words.now);
const rows = new Rows(document.getElementById("rows"), { words, format, now: serverNow, alerts: layout !== "list" });

let due = null;
/** Rows that were on screen, so that one that comes is heard once. */
let heard = new Set();
let muted = false;

function ring(now) {
  const rows = new Set(shown.shown(now).map((row) => row.row));
  const isNew = [...rows].some((row) => !heard.has(row));
  heard = rows;
  if (isNew && !muted && sound?.play(now)) document.body.dataset.sounds = Number(document.body.dataset.sounds ?? 0) + 1;
}

/** Makes the screen what it should be now; called again when that will be something else. */
function draw(animate) {
  clearTimeout(due);
  const now = Date.now();
  rows.show(shown.shown(now), animate);
  const next = shown.next(now) - now;
  if (next < Infinity) due = setTimeout(draw, Math.max(20, Math.min(next, 60_000)), true);
}

document.addEventListener("visibilitychange", () => draw(false));
setInterval(() => rows.tick(), 1_000);

connection = connect({
  url: HOME,
  feed,
  as: "overlay",
  token: secrets.get("token") ?? wishes.get("token") ?? undefined,
  onChange: (list, change) => {
    shown.take(list, change, Date.now(), serverNow());
    if (change.ops?.some((op) => op.op === "control" && op.action === "replay")) heard.clear();
    muted = Boolean(list.control?.muted);
    if (muted) sound?.stop();
    ring(Date.now());
    draw(true);
  },
  onState: (state, { code }) => {
    document.body.dataset.state = state;
    // Nobody reads a console in OBS: what is wrong stands on the page.
    const problem = document.getElementById("problem");
    problem.textContent = (state === "closed" && words.refused[code]) || "";
    problem.hidden = !problem.textContent;
  },
});

// Something that nobody looks after must come back from whatever happened to it: when nothing was
// heard for long, and the gateway does answer, the page begins anew. Two looks in a row, because
// after a sleep of the machine the first one only says that it slept.
let silentLooks = 0;
setInterval(
  async () => {
    heardAt = Math.max(heardAt, connection.heardAt);
    silentLooks = Date.now() - heardAt >= reloadAfter ? silentLooks + 1 : 0;
    if (silentLooks < 2) return;
    // An error page of the browser would never reload itself.
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(5_000) }).catch(() => null);
    if (answer?.ok) location.reload();
  },
  Math.min(15_000, reloadAfter / 2),
);
