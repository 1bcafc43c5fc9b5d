/** Gives pages the element `<tipcast-ticker>`. */

import { TipcastTicker } from "./ticker.js";

export { TipcastTicker };

// A page may load two copies; the first one wins, as with any other element.
const { customElements } = globalThis;
if (customElements && !customElements.get("tipcast-ticker")) customElements.define("tipcast-ticker", TipcastTicker);
