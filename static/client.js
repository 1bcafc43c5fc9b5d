/**
 * The client without the element: nothing here touches a document, so it also runs in a worker or in Node.
 *
 *     import { connect } from "https://gateway.example/static/client.js";
 *     const feed = connect({ url: "https://gateway.example", feed: "demo", onChange: ({ rows }) => render(rows) });
 *     feed.close();
 */

export { connect } from "./connect.js";
export { Fold, afterClose, backoff, feedUrl } from "./fold.js";
export { reconnecting } from "./reconnecting.js";
