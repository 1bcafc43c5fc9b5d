// Tries a call from the page about it. The key is kept for the tab only, and sent in a header.

import { addressOf, bodyOf, parametersOf, takesKey, valueOf } from "./docs_samples.js";

const KEPT = "tipcast-docs-key";

/** How much of an answer is shown. */
const SHOWN = 20_000;

function input(make, name, value, more = {}) {
  const element = make("input", { name, value, autocomplete: "off", spellcheck: "false", ...more });
  return [element, make("label", {}, name, " ", element)];
}

function form(make, path, method, spec) {
  const fields = new Map();
  const parts = [];
  for (const parameter of parametersOf(spec)) {
    const [element, label] = input(make, parameter.name, parameter.required ? valueOf(parameter) : "");
    fields.set(parameter.name, element);
    parts.push(label);
  }
  const body = bodyOf(spec);
  const text = make("textarea", { name: "body", rows: "8", spellcheck: "false", "aria-label": "Body" });
  if (body !== undefined) {
    text.value = JSON.stringify(body, null, 2);
    parts.push(text);
  }
  const [key, keyLabel] = input(make, "key", sessionStorage.getItem(KEPT) ?? "", { type: "password", placeholder: "tck_… if the gateway has keys" });
  if (takesKey(spec)) parts.push(keyLabel);
  const answer = make("pre", { tabindex: "0", "aria-live": "polite" });
  answer.hidden = true;
  const element = make("form", { class: "try" }, ...parts, make("button", {}, `Send ${method.toUpperCase()}`), answer);
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEPT, key.value);
    const values = Object.fromEntries([...fields].map(([name, field]) => [name, field.value]));
    const headers = {};
    if (takesKey(spec) && key.value) headers.authorization = `Bearer ${key.value}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    answer.hidden = false;
    answer.textContent = "…";
    try {
      const said = await fetch(`.${addressOf(path, spec, values)}`, { method: method.toUpperCase(), headers, body: body === undefined ? undefined : text.value });
      const words = await said.text();
      let shown = words;
      try {
        shown = JSON.stringify(JSON.parse(words), null, 2);
      } catch {
        // It is no JSON, and shown as it is.
      }
      answer.textContent = `${said.status}\n${shown.slice(0, SHOWN)}`;
    } catch (error) {
      answer.textContent = `no answer: ${error.message}`;
    }
  });
  return element;
}

/** What opens to a form that makes the call. `el` makes elements. */
export function trying(el, path, method, spec) {
  const details = el("details", { class: "trying" }, el("summary", {}, "Try it"));
  // Made when it is opened first: there are many.
  details.addEventListener("toggle", () => details.open && details.children.length === 1 && details.append(form(el, path, method, spec)));
  return details;
}
