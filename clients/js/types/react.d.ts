/** A feed as state and the ticker as a component; and with `import "tipcast/react"` React 18 and 19 know the elements in JSX. */

import type { CSSProperties, DetailedHTMLProps, HTMLAttributes, ReactElement } from "react";
import type { ConnectOptions } from "./client.js";
import type { Feed } from "./watching.js";
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

/** What is on air, as state: `const { rows, state } = useFeed({ url, feed })`. Another `url`, `feed`, `without` or `as` connects anew. */
export function useFeed(options: ConnectOptions): Feed;

export type TickerProps = TipcastTickerAttributes & { className?: string; id?: string; style?: CSSProperties };

/** `<tipcast-ticker>` as a component; its module is loaded in the browser only, so a page can be rendered on a server. */
export function Ticker(props: TickerProps): ReactElement;
