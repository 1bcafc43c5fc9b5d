// Forms made of the API's own description: whatever a request may have is a field, with its limits and what it means.

import { HOME, make } from "./keyed.js";
import { ask, field } from "./console_parts.js";
import { words } from "./console_words.js";

let described;

/** The schema of the body of `method` at `path`, as /openapi.json has it, with every reference resolved. */
export async function schemaOf(method, path) {
  described ??= fetch(new URL("openapi.json", HOME)).then((answer) => answer.json());
  const api = await described.catch((error) => {
    described = undefined;
    throw error;
  });
  const resolve = (schema) => {
    const { $ref: reference, allOf, ...own } = schema;
    const from = reference ? resolve(api.components.schemas[reference.split("/").at(-1)]) : {};
    const whole = Object.assign({}, from, ...(allOf ?? []).map(resolve), own);
    if (whole.items) whole.items = resolve(whole.items);
    if (whole.properties) whole.properties = Object.fromEntries(Object.entries(whole.properties).map(([name, it]) => [name, resolve(it)]));
    return whole;
  };
  return resolve(Object.values(api.paths[path][method.toLowerCase()].requestBody.content)[0].schema);
}

/** How one value is shown and read: `{element, read()}`; what is empty reads as undefined. */
function control(name, schema, value) {
  const type = [schema.type].flat().find((it) => it !== "null");
  if (schema.enum) return select(schema.enum, value);
  if (type === "boolean") {
    const element = Object.assign(make("input", ""), { type: "checkbox", checked: value ?? schema["x-default"] ?? false });
    return { element, read: () => element.checked };
  }
  if (type === "integer" || type === "number") {
    const element = Object.assign(make("input", ""), { type: "number", min: schema.minimum ?? "", max: schema.maximum ?? "", value: value ?? "" });
    element.placeholder = schema["x-default"] ?? schema.example ?? "";
    return { element, read: () => (element.value === "" ? undefined : Number(element.value)) };
  }
  if (type === "array" && schema.items?.enum) return choices(name, schema.items.enum, value ?? []);
  if (type === "array" && schema.items?.type === "string") {
    const element = Object.assign(make("input", ""), { type: "text", value: (value ?? []).join(", "), placeholder: (schema.example ?? []).join(", ") });
    return { element, read: () => (element.value.trim() ? element.value.split(",").map((it) => it.trim()).filter(Boolean) : undefined) };
  }
  if (schema.properties) {
    const form = new Form(schema, value ?? {}, `${name}-`);
    const element = make("fieldset", "", ...form.elements);
    return { element, read: () => (Object.keys(form.read()).length ? form.read() : undefined) };
  }
  if (type === "object" || type === "array") {
    const element = Object.assign(make("textarea", ""), { value: value === undefined ? "" : JSON.stringify(value, null, 1), spellcheck: false, rows: 3 });
    return { element, read: () => (element.value.trim() ? parsed(name, element.value) : undefined) };
  }
  const secret = schema.writeOnly || name === "secret" || name === "token";
  const element = Object.assign(make("input", ""), { type: secret ? "password" : "text", value: value ?? "", placeholder: schema.example ?? "", maxLength: schema.maxLength ?? 2048, spellcheck: false });
  return { element, read: () => element.value.trim() || undefined };
}

function parsed(name, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${name}: ${error.message}`);
  }
}

function select(values, value) {
  const element = make("select", "", ...["", ...values].map((it) => Object.assign(make("option", "", it), { value: it, selected: it === (value ?? "") })));
  return { element, read: () => element.value || undefined };
}

function choices(name, values, chosen) {
  const boxes = values.map((value) => Object.assign(make("input", ""), { type: "checkbox", value, checked: chosen.includes(value) }));
  const element = make("span", "choices", ...boxes.map((box) => make("label", "", box, ` ${box.value}`)));
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", name);
  return { element, read: () => boxes.filter((box) => box.checked).map((box) => box.value) };
}

/** A form for `schema` that begins with `value`. */
class Form {
  #controls;

  /** `within`: what its fields' ids begin with. */
  constructor({ required = [], properties }, value, within = "") {
    this.#controls = Object.entries(properties).map(([name, schema]) => ({ name, schema, ...control(name, schema, value[name]) }));
    this.elements = this.#controls.map(({ name, schema, element }) => {
      element.id = `field-${within}${name}`;
      const label = make(element.matches("input, select, textarea") ? "label" : "span", "", name);
      if (label.tagName === "LABEL") label.htmlFor = element.id;
      if (required.includes(name) && !within && "required" in element) element.required = true;
      if (!schema.description) return make("div", "setting", label, element);
      const meaning = make("p", "quiet", schema.description);
      meaning.id = `${element.id}-meaning`;
      element.setAttribute("aria-describedby", meaning.id);
      return make("div", "setting", label, element, meaning);
    });
  }

  read() {
    return Object.fromEntries(this.#controls.map(({ name, read }) => [name, read()]).filter(([, value]) => value !== undefined));
  }
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const shown = (name, value) => (value === undefined ? "–" : name === "secret" || name === "token" ? "•••" : JSON.stringify(value));

/** What differs, name by name. */
export function differences(before, after) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.filter((name) => !same(before[name], after[name])).map((name) => ({ name, before: before[name], after: after[name] }));
}

/**
 * Edits in a dialog with two steps: the fields, then what changes, before and after, with what watchers will see of it.
 * `save(value, changes)` sends it; with `part` only fields that differ are given to it, and nothing is sent for none.
 * What is named by its path is asked for its name too, as `named` calls it, and the name is given to `save` second.
 */
export async function edit({ title, method, path, before = {}, named = "", part = false, effects = {}, save }) {
  const schema = await schemaOf(method, path);
  const names = Object.keys(schema.properties);
  const was = Object.fromEntries(names.filter((name) => before[name] !== undefined).map((name) => [name, before[name]]));
  const form = new Form(schema, was);
  const name = named ? field(named, "name", { required: true, maxLength: 64 }) : undefined;
  const fields = make("div", "settings", ...(name ? [name] : []), ...form.elements);
  const review = make("div", "review");
  review.hidden = true;
  let reviewed = "";
  return ask({
    title, body: [fields, review], yes: words.review_changes,
    agree: async (button) => {
      const after = form.read();
      const changes = differences(was, after);
      if (!changes.length && part) throw new Error(words.no_change);
      if (reviewed !== JSON.stringify(after)) {
        reviewed = JSON.stringify(after);
        const seen = changes.map(({ name }) => effects[name]).filter(Boolean);
        review.replaceChildren(make("h3", "", words.changes), make("ul", "", ...changes.map((it) =>
          make("li", "", make("b", "", it.name), ` ${shown(it.name, it.before)} → ${shown(it.name, it.after)}`))),
        ...(seen.length ? [make("h3", "", words.watchers_see), make("ul", "", ...seen.map((text) => make("li", "", text)))] : []));
        review.hidden = false;
        button.textContent = words.save;
        review.scrollIntoView({ block: "nearest" });
        return false;
      }
      await save(part ? Object.fromEntries(changes.map(({ name: field, after: now }) => [field, now])) : after, name?.querySelector("input").value.trim());
      return true;
    },
  });
}
