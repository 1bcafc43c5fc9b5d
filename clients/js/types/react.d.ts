/** `import "tipcast/react"` once, and React 18 and 19 know `<tipcast-ticker>` in JSX. Types only. */

import type { DetailedHTMLProps, HTMLAttributes } from "react";
import type { TipcastTicker, TipcastTickerAttributes } from "./element.js";

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "tipcast-ticker": DetailedHTMLProps<HTMLAttributes<TipcastTicker>, TipcastTicker> & TipcastTickerAttributes;
    }
  }
}
