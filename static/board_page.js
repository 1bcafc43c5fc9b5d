// The overlays of leaders and of a goal: one element on a transparent page. Its address says what it shows.

import "./board.js";

const wishes = new URLSearchParams(location.search);
// What is behind # never leaves the browser, so it is in nobody's log.
const secrets = new URLSearchParams(location.hash.slice(1));
const { feed, goal } = document.body.dataset;

const THEMES = ["dark", "light", "auto"];
document.documentElement.dataset.theme = THEMES.find((theme) => theme === wishes.get("theme")) ?? "dark";

const shown = document.createElement(goal ? "tipcast-goal" : "tipcast-leaders");
shown.setAttribute("feed", feed);
if (goal) shown.setAttribute("goal", goal);
for (const name of ["period", "by", "max", "heading", "lang"]) {
  const wish = wishes.get(name);
  if (wish) shown.setAttribute(name, wish);
}
shown.setAttribute("as", "overlay");
const token = secrets.get("token") ?? wishes.get("token");
// As a property: a style of the page's could read an attribute.
if (token) shown.token = token;
document.body.append(shown);
