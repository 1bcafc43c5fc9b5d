// Who may do what, and who did what.

import { $, make } from "./keyed.js";
import { Table, act, call, format, number, since } from "./console_parts.js";
import { words } from "./console_words.js";

/** Lines of one call. */
const PAGE = 200;

const keys = new Table(words.keys.list, [
  { id: "name", name: words.keys.name, cell: ({ name }) => name, sort: ({ name }) => name },
  { id: "may", name: words.keys.may, cell: ({ may }) => may.join(", ") },
  { id: "feeds", name: words.keys.feeds, cell: ({ feeds }) => feeds.join(", ") },
  { id: "signed", name: words.keys.signed, extra: true, cell: ({ signed }) => (signed ? words.yes : "") },
  { id: "expires", name: words.keys.expires, extra: true, cell: ({ expires_at }) => (expires_at ? since(expires_at) : ""), sort: ({ expires_at }) => expires_at ?? "~" },
  { id: "used", name: words.keys.used, cell: ({ last_used_at }) => (last_used_at ? since(last_used_at) : "–"), sort: ({ last_used_at }) => last_used_at ?? "" },
], ({ name }) => name, { by: "name" });

const audit = new Table(words.audit.list, [
  { id: "time", name: words.audit.time, cell: ({ time }) => format.moment(time) },
  { id: "key", name: words.audit.key, cell: ({ key }) => key ?? words.no_key },
  { id: "action", name: words.audit.action, cell: ({ action }) => action },
  { id: "feed", name: words.audit.feed, extra: true, cell: ({ feed }) => feed ?? "" },
  { id: "target", name: words.audit.target, cell: ({ target }) => target },
  { id: "right", name: words.audit.right, extra: true, cell: ({ right }) => right ?? "" },
  { id: "outcome", name: words.audit.outcome, cell: ({ outcome }) => outcome },
], ({ cursor }) => cursor);

let lines = [];

function drawAudit() {
  const wanted = $("audit-search").value.trim().toLowerCase();
  audit.show(wanted ? lines.filter((line) => JSON.stringify(line).toLowerCase().includes(wanted)) : lines);
}

async function older(after) {
  const { audit: some, next } = await call("GET", `/v1/audit?${new URLSearchParams({ limit: PAGE, ...(after && { after }) })}`);
  lines = after ? [...lines, ...some] : some;
  drawAudit();
  $("audit-more").replaceChildren(...(next ? [act(words.more_button, () => older(next), "plain")] : [make("span", "quiet", `${words.of_node} ${number(lines.length)}`)]));
}

$("audit-search").addEventListener("input", drawAudit);

export const access = {
  open() {
    if (!keys.box.isConnected) {
      $("keys").append(keys.box);
      $("audit-more").before(audit.box);
    }
  },
  async look() {
    const { keys: all } = await call("GET", "/v1/keys");
    keys.show(all);
    await older("");
  },
};
