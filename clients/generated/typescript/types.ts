// The types that openapi-typescript makes with its default options: what README sends is one of them.

import type { components } from "./api";

type Schemas = components["schemas"];

export const rose: Schemas["Gift"] = {
  id: "order-7712", user: { id: "u-42", name: "Mia" }, gift: { id: "rose", name: "Rose" }, value: { amount: 499, currency: "EUR" },
  meta: { campaign: "winter" },
};
export const drop: Schemas["DropSpec"] = { gift: { id: "r", name: "Rocket" }, total: 10 };
export const claim: Schemas["DropClaim"] = { id: "c-1", user: { id: "u-42", name: "Mia" }, pay: "now" };
export const group: Schemas["GroupClaim"] = { consumer: "worker-1" };
export const policy: Schemas["PolicyPatch"] = { capacity: 5 };
export const webhook: Schemas["WebhookSpec"] = {
  url: "https://games.example/gifts", secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", headers: { Authorization: "Bearer x" },
};
export const sum = (entries: Schemas["LedgerEntry"][]) => entries.reduce((all, { delta }) => all + (delta?.count ?? 0), 0);
