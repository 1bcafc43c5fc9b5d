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

import { TipcastTicker } from "./ticker.js";

export { connect } from "./connect.js";
export { Fold, afterClose, backoff, feedUrl } from "./fold.js";
export { TipcastTicker };

// A page may load two copies; the first one wins, as with any other element.
const { customElements } = globalThis;
if (customElements && !customElements.get("tipcast-ticker")) customElements.define("tipcast-ticker", TipcastTicker);
