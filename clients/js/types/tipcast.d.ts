/// <reference lib="dom" />
/** All of it: the connection, the fold, and the element. */

export * from "./client.js";
export * from "./element.js";
