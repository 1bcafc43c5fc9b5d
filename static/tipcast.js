/**
 * Tipcast's client: an ES module without dependencies.
 *
 *     <script type="module" src="https://gateway.example/static/tipcast.js"></script>
 *     <tipcast-ticker feed="demo"></tipcast-ticker>
 *
 * or, to draw the list yourself,
 *
 *     import { connect } from "https://gateway.example/static/tipcast.js";
 *     const feed = connect({ url: "https://gateway.example", feed: "demo", onChange: ({ rows }) => render(rows) });
 *     feed.close();
 */

export * from "./client.js";
export { TipcastTicker } from "./element.js";
