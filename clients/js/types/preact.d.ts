/** `import "tipcast/preact"` once, and Preact knows `<tipcast-ticker>` in JSX. Types only. */

import type { JSX } from "preact";
import type { TipcastTicker, TipcastTickerAttributes } from "./element.js";

declare module "preact" {
  namespace JSX {
    interface IntrinsicElements {
      "tipcast-ticker": HTMLAttributes<TipcastTicker> & TipcastTickerAttributes;
    }
  }
}
