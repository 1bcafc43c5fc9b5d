// Samples of a call, made from its description: how programs in a few languages make it. Pure: no page, no network.

/** The key that a sample reads from its environment. */
const KEY = "TIPCAST_KEY";

export const LANGUAGES = ["curl", "Node", "Python", "Go"];

/** An example of a body, of several one with an id, so that who copies it may send it again; else the shortest that is enough. */
export function bodyOf(spec) {
  const content = spec.requestBody?.content?.["application/json"];
  if (!content) return undefined;
  const examples = content.examples ?? {};
  return (examples.order ?? examples.least ?? Object.values(examples)[0])?.value ?? content.example ?? {};
}

/** The value that stands for a parameter until somebody says another. */
export const valueOf = (parameter) => String(parameter.example ?? parameter.schema?.example ?? parameter.schema?.default ?? parameter.name);

/** Parameters that are part of the address. */
export const parametersOf = (spec) => (spec.parameters ?? []).filter((it) => it.in === "path" || it.in === "query");

/** A path with its parameters, by name; a query parameter without a value is left out. */
export function addressOf(path, spec, values) {
  let address = path;
  const query = new URLSearchParams();
  for (const parameter of parametersOf(spec)) {
    const value = values[parameter.name] ?? (parameter.required ? valueOf(parameter) : "");
    if (parameter.in === "path") address = address.replace(`{${parameter.name}}`, encodeURIComponent(value).replaceAll("%2A", "*"));
    else if (value !== "") query.set(parameter.name, value);
  }
  return query.size ? `${address}?${query}` : address;
}

/** True for a call that takes a key. */
export const takesKey = (spec) => (spec.security ?? []).some((one) => "key" in one);

/** What a program in Python writes for a value of JSON. */
function python(value, indent = "    ") {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  const inner = `${indent}    `;
  const list = (open, items, close) => (items.length ? `${open}\n${items.map((it) => inner + it).join(",\n")},\n${indent}${close}` : open + close);
  if (Array.isArray(value)) return list("[", value.map((it) => python(it, inner)), "]");
  if (typeof value === "object") {
    return list("{", Object.entries(value).map(([key, it]) => `${JSON.stringify(key)}: ${python(it, inner)}`), "}");
  }
  return JSON.stringify(value);
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const WRITERS = {
  curl({ method, url, key, body }) {
    const implied = body === undefined ? "GET" : "POST";
    const lines = [`curl ${method === implied ? "" : `-X ${method} `}${quoted(url)}`];
    if (key) lines.push(`-H "Authorization: Bearer $${KEY}"`);
    if (body !== undefined) lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
    return lines.join(" \\\n  ");
  },

  Node({ method, url, key, body }) {
    const headers = [key && `authorization: \`Bearer \${process.env.${KEY}}\``, body !== undefined && '"content-type": "application/json"'];
    const given = headers.filter(Boolean);
    const options = [
      method !== "GET" && `  method: "${method}",`,
      given.length && `  headers: { ${given.join(", ")} },`,
      body !== undefined && `  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll("\n", "\n  ")}),`,
    ].filter(Boolean);
    const how = options.length ? `, {\n${options.join("\n")}\n}` : "";
    return `const answer = await fetch(${JSON.stringify(url)}${how});\nconsole.log(answer.status, await answer.text());`;
  },

  Python({ method, url, key, body }) {
    const headers = [key && `"Authorization": "Bearer " + os.environ["${KEY}"]`, body !== undefined && '"Content-Type": "application/json"'];
    const lines = [
      `    ${JSON.stringify(url)},`,
      body !== undefined && `    json.dumps(${python(body)}).encode(),`,
      headers.some(Boolean) && `    headers={${headers.filter(Boolean).join(", ")}},`,
      `    method="${method}",`,
    ].filter(Boolean);
    const modules = [body !== undefined && "json", key && "os", "urllib.request"].filter(Boolean).join(", ");
    return `import ${modules}\n\nrequest = urllib.request.Request(\n${lines.join("\n")}\n)\n`
      + "with urllib.request.urlopen(request) as answer:\n    print(answer.status, answer.read().decode())";
  },

  Go({ method, url, key, body }) {
    const text = body === undefined ? "" : JSON.stringify(body, null, 2);
    const modules = ["fmt", "io", "log", "net/http", key && "os", body !== undefined && "strings"].filter(Boolean);
    const literal = text.includes("`") ? JSON.stringify(text) : `\`${text}\``;
    const lines = [
      body !== undefined && `body := strings.NewReader(${literal})`,
      `request, err := http.NewRequest("${method}", ${JSON.stringify(url)}, ${body === undefined ? "nil" : "body"})`,
      "if err != nil {\n\t\tlog.Fatal(err)\n\t}",
      key && `request.Header.Set("Authorization", "Bearer "+os.Getenv("${KEY}"))`,
      body !== undefined && 'request.Header.Set("Content-Type", "application/json")',
      "answer, err := http.DefaultClient.Do(request)",
      "if err != nil {\n\t\tlog.Fatal(err)\n\t}",
      "defer answer.Body.Close()",
      "text, err := io.ReadAll(answer.Body)",
      "fmt.Println(answer.Status, string(text), err)",
    ].filter(Boolean);
    return `package main\n\nimport (\n${modules.map((it) => `\t"${it}"\n`).join("")})\n\nfunc main() {\n\t${lines.join("\n\t")}\n}`;
  },
};

/** By language: a program that makes the call at this base. Sockets and streams have one of their own, a delivery none. */
export function samplesOf(base, path, method, spec) {
  if (!path.startsWith("/")) return {};
  const url = base + addressOf(path, spec, {});
  if (/\/ws$/.test(path)) {
    const socket = url.replace(/^http/, "ws");
    return { Node: `const socket = new WebSocket(${JSON.stringify(socket)});\nsocket.onmessage = (event) => console.log(event.data);` };
  }
  if (/\/sse$/.test(path)) return { curl: `curl -N ${quoted(url)}` };
  const call = { method: method.toUpperCase(), url, key: takesKey(spec), body: bodyOf(spec) };
  return Object.fromEntries(LANGUAGES.map((language) => [language, WRITERS[language](call)]));
}

/** True for a call that can be tried from a page: it has an answer that ends. */
export const canBeTried = (path) => path.startsWith("/") && !/\/(ws|sse)$/.test(path);
