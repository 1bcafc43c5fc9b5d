// Draws /openapi.json. Text only ever becomes textContent.

import { LANGUAGES, canBeTried, samplesOf } from "./docs_samples.js";
import { trying } from "./docs_try.js";

const METHODS = ["post", "get", "put", "patch", "delete"];

/**
 * What people come to do, in the order in which they need it: a heading, a sentence, and which operations belong there,
 * the most useful first. An operation is in the first section that wants it; the last one takes what is left.
 */
const TASKS = [
  ["Send gifts", "From your backend, one or many at once, now or later.", [/\/gifts(\/batch)?$/, /\/scheduled/]],
  ["Watch a feed", "How to connect; what flows afterwards is below, in the live protocol.", [/^\/v1\/feeds\/\{feed\}\/(ws|sse)$/, /^\/v1\/ws$/]],
  ["Read a feed", "The list as it stands, and what is counted.", [/^\/v1\/feeds\/\{feed\}$/, /\/(totals|leaders|presence)$/]],
  ["Sell drops", "Limited gifts: define, claim, hold, pay.", [/\/drops$/, /\/drops\/\{drop\}$/, /\/claims$/, /\/holds/]],
  ["Read the ledger", "Every gift to your game backend, at least once and in order, by pull.", [/\/claim$/, /\/ack$/, /\/nack$/, /\/groups/, /\/ledger/, /\/gifts\/\{id\}$/]],
  ["Receive webhooks", "The same, pushed to you.", [/\/webhooks\/\{name\}$/, /\/webhooks/, /^webhook /]],
  ["Moderate a show", "What a host does while it runs.", [/\/review/, /\/(retract|refund)$/, /\/rows/, /\/blocks/, /\/control$/, /\/session$/, /\/goals/]],
  ["Operate the gateway", "Policies, sources, viewers, health.", [/\/policy$/, /\/sources/, /^\/in\//, /^\/(readyz|healthz|metrics)$/, /./]],
];

/** Every operation once, as `{path, method, spec}`, by task. */
function byTask(api) {
  const all = [
    ...Object.entries(api.paths),
    ...Object.entries(api.webhooks ?? {}).map(([name, item]) => [`webhook ${name}`, item]),
  ].flatMap(([path, item]) => METHODS.filter((method) => item[method]).map((method) => ({ path, method, spec: item[method] })));
  const place = ({ path }) => {
    const task = TASKS.findIndex(([, , wanted]) => wanted.some((pattern) => pattern.test(path)));
    return [task, TASKS[task][2].findIndex((pattern) => pattern.test(path))];
  };
  const placed = all.map((operation) => [...place(operation), operation]);
  // The sort is stable: within a pattern the order of the document stays.
  placed.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return TASKS.map(([title, about], n) => ({ title, about, operations: placed.filter(([task]) => task === n).map((it) => it[2]) }));
}

/** An element with attributes and children; strings become text. */
function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A text; what is between backticks is code. */
const prose = (text) => text.split("`").map((part, n) => (n % 2 ? el("code", {}, part) : part));

/** The last part of a reference. */
const nameOf = (schema) => schema?.$ref?.split("/").pop();

/** What a value may be, in words. */
function rule(schema) {
  if (!schema) return "";
  if (schema.$ref) return nameOf(schema);
  const choices = schema.oneOf ?? (schema.type ? null : schema.anyOf);
  if (choices) return choices.map(rule).join(" or ");
  const words = [];
  if (schema.enum) words.push(schema.enum.map((value) => JSON.stringify(value)).join(", "));
  else if (schema.type === "array") words.push(`list of ${rule(schema.items)}`);
  else words.push([schema.type].flat().join(" or "), ...(schema.format?.match(/^(date-time|uri)$/) ? [schema.format] : []));
  const span = (least, most, unit) => {
    if (least === undefined && most === undefined) return;
    words.push(`${least ?? ""}…${most ?? ""}${unit}`);
  };
  span(schema.minimum, schema.maximum, "");
  span(schema.minLength, schema.maxLength, " characters");
  span(schema.minItems, schema.maxItems, " items");
  if (schema.pattern) words.push(schema.pattern);
  const byDefault = schema["x-default"] ?? schema.default;
  if (byDefault !== undefined) words.push(`default ${JSON.stringify(byDefault)}`);
  return words.join(", ");
}

/** The rule, linked where it is a schema of its own. */
function ruleCell(schema) {
  const target = nameOf(schema) ?? nameOf(schema?.items);
  const text = rule(schema);
  return el("td", { class: "rule" }, target ? el("a", { href: `#schema-${target}` }, text) : text);
}

function table(head, rows) {
  return el(
    "table",
    { class: "fields" },
    el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...rows),
  );
}

function field(name, schema, must, about) {
  const label = el("td", { class: "field" }, el("code", {}, name), must ? el("span", { class: "must" }, " required") : null);
  return el("tr", {}, label, ruleCell(schema), el("td", {}, ...prose(about ?? schema?.description ?? "")));
}

const HEAD = ["name", "rule", "meaning"];

function example(value, title) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return el("div", {}, title ? el("h4", {}, title) : null, copied(el("pre", { tabindex: "0" }, text)));
}

/** A text with a button that copies it. */
function copied(pre) {
  const button = el("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = "Copied";
    } catch {
      // Not on a page without a certificate: then it is selected, to be copied by hand.
      getSelection().selectAllChildren(pre);
    }
  });
  return el("div", { class: "copied" }, pre, button);
}

function body(content) {
  return Object.entries(content ?? {}).flatMap(([type, { schema, examples, example: one }]) => {
    const target = nameOf(schema);
    const what = target ? el("a", { href: `#schema-${target}` }, target) : rule(schema);
    const parts = [el("p", {}, el("code", {}, type), " ", what)];
    // The plainest first.
    const all = Object.values(examples ?? {}).sort((a, b) => JSON.stringify(a.value).length - JSON.stringify(b.value).length);
    for (const { summary, value } of all) parts.push(example(value, summary));
    if (one !== undefined) parts.push(example(one));
    return parts;
  });
}

function operation(path, method, spec) {
  const id = `${method}-${path}`;
  const [first, ...rest] = [spec.summary, spec.description].filter(Boolean);
  const parts = [
    el("h3", {}, el("span", { class: `method ${method}` }, method.toUpperCase()), " ", el("code", {}, path)),
    el("p", {}, el("strong", {}, ...prose(first ?? ""))),
    ...rest.map((text) => el("p", {}, ...prose(text))),
  ];
  if (spec.parameters?.length) {
    const rows = spec.parameters.map((p) => field(`${p.name} (${p.in})`, p.schema, p.required, p.description));
    parts.push(el("h4", {}, "Parameters"), table(HEAD, rows));
  }
  if (spec.requestBody) parts.push(el("h4", {}, "Body"), ...body(spec.requestBody.content));
  parts.push(el("h4", {}, "Answers"));
  for (const [status, answer] of Object.entries(spec.responses)) {
    const summary = el("summary", {}, el("code", {}, status), " ", ...prose(answer.description));
    parts.push(el("details", {}, summary, ...body(answer.content)));
  }
  const head = parts.splice(0, 1);
  const beside = [samples(path, method, spec), canBeTried(path) ? trying(el, path, method, spec) : null];
  const aside = el("aside", {}, ...beside);
  return { id, element: el("article", { id, class: "call" }, ...head, el("div", {}, ...parts), aside) };
}

/** The language in which samples are shown, for the tab. */
const LANGUAGE = "tipcast-docs-language";

function samples(path, method, spec) {
  const texts = samplesOf(new URL(".", location.href).href.replace(/\/$/, ""), path, method, spec);
  const known = LANGUAGES.filter((language) => texts[language]);
  if (!known.length) return null;
  const buttons = known.map((language) => el("button", { type: "button", "data-language": language, "aria-pressed": "false" }, language));
  const box = el("div", { class: "samples" }, el("div", { role: "group", "aria-label": "Language" }, ...buttons));
  for (const language of known) box.append(copied(el("pre", { tabindex: "0", "data-language": language }, texts[language])));
  show(box, sessionStorage.getItem(LANGUAGE) ?? LANGUAGES[0]);
  return box;
}

/** Shows a sample in this language, or in the first that there is. */
function show(box, wanted) {
  const texts = [...box.querySelectorAll("pre")];
  const language = (texts.find((text) => text.dataset.language === wanted) ?? texts[0]).dataset.language;
  for (const text of texts) text.parentElement.hidden = text.dataset.language !== language;
  for (const button of box.querySelectorAll("[data-language]:is(button)")) button.setAttribute("aria-pressed", button.dataset.language === language);
}

// One choice is for all samples.
document.addEventListener("click", (event) => {
  const language = event.target.closest?.(".samples button")?.dataset.language;
  if (!language) return;
  sessionStorage.setItem(LANGUAGE, language);
  const before = event.target.getBoundingClientRect().top;
  document.querySelectorAll(".samples").forEach((box) => show(box, language));
  // What was clicked stays where it is, whatever became longer above it.
  scrollBy(0, event.target.getBoundingClientRect().top - before);
});

function schemaArticle(name, schema) {
  const parts = [el("h3", {}, el("code", {}, name))];
  if (schema.description) parts.push(el("p", {}, ...prose(schema.description)));
  const must = new Set(schema.required ?? []);
  const rows = Object.entries(schema.properties ?? {}).map(([key, value]) => field(key, value, must.has(key)));
  parts.push(rows.length ? table(HEAD, rows) : el("p", { class: "rule" }, rule(schema)));
  if (schema.unevaluatedProperties === false) parts.push(el("p", { class: "rule" }, "Other fields are refused."));
  return el("article", { id: `schema-${name}` }, ...parts);
}

/** Links of the contents with the text that a search looks through. */
const entries = [];

function entry(link, element) {
  entries.push({ link, element, text: element.textContent.toLowerCase() });
  return link;
}

/** Parts of the page: what people come to do, one at a time. Each has its heading in the contents and its section. */
const tasks = [];

/** A section with its part of the contents; the heading leads to it. */
function task(main, nav, id, title, section = el("section", {}, el("h2", {}, title))) {
  section.id = id;
  const group = el("div", { class: "group" }, el("h2", {}, el("a", { href: `#${id}` }, title)));
  main.append(section);
  nav.append(group);
  tasks.push({ section, group });
  return { section, group };
}

/** Shows the part that the address names something in; without a name the first. */
function showTask() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const now = tasks.find(({ section }) => named && section.contains(named)) ?? tasks[0];
  for (const it of tasks) {
    it.section.hidden = it !== now;
    it.group.classList.toggle("current", it === now);
  }
  named?.scrollIntoView();
}

/** What was typed: words, and phrases between quotes. */
const wanted = (typed) => [...typed.toLowerCase().matchAll(/"([^"]+)"?|(\S+)/g)].map(([, phrase, word]) => phrase ?? word);

/** Shows what has all that was typed, and says how much that is. */
function search(typed) {
  const all = wanted(typed);
  let found = 0;
  for (const { link, element, text } of entries) {
    const fits = all.every((it) => text.includes(it));
    link.hidden = element.hidden = !fits;
    found += fits;
  }
  for (const { section, group } of tasks) {
    section.hidden = !section.querySelector("article:not([hidden])");
    group.hidden = !group.querySelector(":scope > a:not([hidden])");
    group.classList.toggle("found", all.length > 0);
  }
  document.getElementById("found").textContent = all.length ? `${found} of ${entries.length}` : "";
  if (!all.length) showTask();
}

/** The live protocol is in the page from the start, and is put where it belongs. */
function protocol(main, nav) {
  const text = document.querySelector("#protocol > section");
  text.className = "text";
  const { section, group } = task(main, nav, idOf("The live protocol"), "The live protocol", text);
  for (const article of section.querySelectorAll("article")) {
    group.append(entry(el("a", { href: `#${article.id}` }, article.querySelector("h3").textContent), article));
  }
}

const idOf = (title) => `task-${title.toLowerCase().replaceAll(" ", "-")}`;

function draw(api) {
  const main = document.getElementById("api");
  const nav = document.getElementById("contents");
  const raw = el("a", { href: "openapi.json" }, "openapi.json");
  main.replaceChildren(
    el("h1", {}, `${api.info.title} ${api.info.version}`),
    el("p", {}, ...prose(api.info.description ?? "")),
    el("p", {}, "The same for programs: ", raw),
  );
  for (const { title, about, operations } of byTask(api)) {
    const { section, group } = task(main, nav, idOf(title), title);
    section.append(el("p", {}, about));
    for (const { path, method, spec } of operations) {
      const { id, element } = operation(path, method, spec);
      section.append(element);
      const label = el("span", { class: `method ${method}` }, method.toUpperCase());
      group.append(entry(el("a", { href: `#${encodeURIComponent(id)}` }, label, " ", path), element));
    }
    if (title === "Watch a feed") protocol(main, nav);
  }
  const list = (title, about, items) => {
    const { section, group } = task(main, nav, idOf(title), title);
    if (about) section.append(el("p", {}, about));
    for (const { element, name } of items) {
      section.append(element);
      group.append(entry(el("a", { href: `#${element.id}` }, name), element));
    }
  };
  list("Events", "What an entry of a feed's ledger may be. Pass over a type that you do not know: new ones may come.",
    Object.entries(api.components?.examples ?? {}).map(([name, { description, value }]) => ({
      name, element: el("article", { id: `event-${name}` }, el("h3", {}, el("code", {}, name)), el("p", {}, ...prose(description)), example(value)),
    })));
  list("Errors", "The type of a problem says what went wrong, and stays the same. What to do about each:",
    (api["x-problems"] ?? []).map(({ name, status, title, about }) => ({
      name: `${status} ${name}`,
      element: el("article", { id: `problem-${status}-${name}` }, el("h3", {}, el("code", {}, `${status} /problems/${name}`)),
        el("p", {}, el("strong", {}, title)), el("p", {}, ...prose(about))),
    })));
  list("Shapes", "", Object.entries(api.components?.schemas ?? {}).map(([name, schema]) => ({ name, element: schemaArticle(name, schema) })));
  document.getElementById("search").hidden = false;
  // What the address named was not there yet when the page was opened.
  showTask();
}

addEventListener("hashchange", () => {
  // A link leads out of what was searched.
  searched.value = "";
  search("");
});

const searched = document.querySelector("#search input");
searched.addEventListener("input", () => search(searched.value));
// As on many pages of documentation, a slash goes to the search.
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target instanceof HTMLInputElement) return;
  event.preventDefault();
  searched.focus();
});

try {
  const answer = await fetch("openapi.json");
  if (!answer.ok) throw new Error(`${answer.status}`);
  draw(await answer.json());
} catch (error) {
  document.getElementById("state").textContent = `/openapi.json cannot be read: ${error.message}`;
}
