/** `import "tipcast/react"` once, and React 18 and 19 know the elements in JSX. Types only. */

import type { DetailedHTMLProps, HTMLAttributes } from "react";
import type {
  TipcastGoal, TipcastGoalAttributes, TipcastLeaders, TipcastLeadersAttributes, TipcastTotal, TipcastTotalAttributes,
} from "./board.js";
import type { TipcastTicker, TipcastTickerAttributes } from "./element.js";

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "tipcast-ticker": DetailedHTMLProps<HTMLAttributes<TipcastTicker>, TipcastTicker> & TipcastTickerAttributes;
      "tipcast-leaders": DetailedHTMLProps<HTMLAttributes<TipcastLeaders>, TipcastLeaders> & TipcastLeadersAttributes;
      "tipcast-goal": DetailedHTMLProps<HTMLAttributes<TipcastGoal>, TipcastGoal> & TipcastGoalAttributes;
      "tipcast-total": DetailedHTMLProps<HTMLAttributes<TipcastTotal>, TipcastTotal> & TipcastTotalAttributes;
    }
  }
}
