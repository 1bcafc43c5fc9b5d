// Draws /openapi.json. Text only ever becomes textContent.

const METHODS = ["get", "post", "put", "patch", "delete"];

/** An element with attributes and children; strings become text. */
function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

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
  if (schema.default !== undefined) words.push(`default ${JSON.stringify(schema.default)}`);
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
  const label = el("td", {}, el("code", {}, name), must ? el("span", { class: "must" }, " required") : null);
  return el("tr", {}, label, ruleCell(schema), el("td", {}, about ?? schema?.description ?? ""));
}

const HEAD = ["name", "rule", "meaning"];

function example(value, title) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return el("div", {}, title ? el("h4", {}, title) : null, el("pre", { tabindex: "0" }, text));
}

function body(content) {
  return Object.entries(content ?? {}).flatMap(([type, { schema, examples, example: one }]) => {
    const target = nameOf(schema);
    const what = target ? el("a", { href: `#schema-${target}` }, target) : rule(schema);
    const parts = [el("p", {}, el("code", {}, type), " ", what)];
    for (const { summary, value } of Object.values(examples ?? {})) parts.push(example(value, summary));
    if (one !== undefined) parts.push(example(one));
    return parts;
  });
}

function operation(path, method, spec) {
  const id = `${method}-${path}`;
  const [first, ...rest] = [spec.summary, spec.description].filter(Boolean);
  const parts = [
    el("h3", {}, el("span", { class: `method ${method}` }, method.toUpperCase()), " ", el("code", {}, path)),
    el("p", {}, el("strong", {}, first ?? "")),
    ...rest.map((text) => el("p", {}, text)),
  ];
  if (spec.parameters?.length) {
    const rows = spec.parameters.map((p) => field(`${p.name} (${p.in})`, p.schema, p.required, p.description));
    parts.push(el("h4", {}, "Parameters"), table(HEAD, rows));
  }
  if (spec.requestBody) parts.push(el("h4", {}, "Body"), ...body(spec.requestBody.content));
  parts.push(el("h4", {}, "Answers"));
  for (const [status, answer] of Object.entries(spec.responses)) {
    const summary = el("summary", {}, el("code", {}, status), " ", answer.description);
    parts.push(el("details", {}, summary, ...body(answer.content)));
  }
  return { id, element: el("article", { id }, ...parts) };
}

function schemaArticle(name, schema) {
  const parts = [el("h3", {}, el("code", {}, name))];
  if (schema.description) parts.push(el("p", {}, schema.description));
  const must = new Set(schema.required ?? []);
  const rows = Object.entries(schema.properties ?? {}).map(([key, value]) => field(key, value, must.has(key)));
  parts.push(rows.length ? table(HEAD, rows) : el("p", { class: "rule" }, rule(schema)));
  if (schema.additionalProperties === false) parts.push(el("p", { class: "rule" }, "Other fields are refused."));
  return el("article", { id: `schema-${name}` }, ...parts);
}

function draw(api) {
  const main = document.getElementById("api");
  const nav = document.getElementById("contents");
  const raw = el("a", { href: "/openapi.json" }, "openapi.json");
  main.replaceChildren(
    el("h1", {}, `${api.info.title} ${api.info.version}`),
    el("p", {}, api.info.description ?? ""),
    el("p", {}, "The same for programs: ", raw),
  );
  for (const tag of api.tags ?? []) {
    main.append(el("h2", {}, tag.name), el("p", {}, tag.description ?? ""));
    nav.append(el("h2", {}, tag.name));
    for (const [path, item] of Object.entries(api.paths)) {
      for (const method of METHODS.filter((method) => item[method]?.tags?.includes(tag.name))) {
        const { id, element } = operation(path, method, item[method]);
        main.append(element);
        const label = el("span", { class: `method ${method}` }, method.toUpperCase());
        nav.append(el("a", { href: `#${encodeURIComponent(id)}` }, label, " ", path));
      }
    }
  }
  main.append(el("h2", {}, "shapes"));
  nav.append(el("h2", {}, "shapes"));
  for (const [name, schema] of Object.entries(api.components?.schemas ?? {})) {
    main.append(schemaArticle(name, schema));
    nav.append(el("a", { href: `#schema-${name}` }, name));
  }
  // What the address named was not there yet when the page was opened.
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

try {
  const answer = await fetch("/openapi.json");
  if (!answer.ok) throw new Error(`${answer.status}`);
  draw(await answer.json());
} catch (error) {
  document.getElementById("state").textContent = `/openapi.json cannot be read: ${error.message}`;
}
