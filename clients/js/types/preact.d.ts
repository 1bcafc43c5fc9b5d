/** `import "tipcast/preact"` once, and Preact knows the elements in JSX. Types only. */

import type { JSX } from "preact";
import type {
  TipcastGoal, TipcastGoalAttributes, TipcastLeaders, TipcastLeadersAttributes, TipcastTotal, TipcastTotalAttributes,
} from "./board.js";
import type { TipcastTicker, TipcastTickerAttributes } from "./element.js";

declare module "preact" {
  namespace JSX {
    interface IntrinsicElements {
      "tipcast-ticker": HTMLAttributes<TipcastTicker> & TipcastTickerAttributes;
      "tipcast-leaders": HTMLAttributes<TipcastLeaders> & TipcastLeadersAttributes;
      "tipcast-goal": HTMLAttributes<TipcastGoal> & TipcastGoalAttributes;
      "tipcast-total": HTMLAttributes<TipcastTotal> & TipcastTotalAttributes;
    }
  }
}
