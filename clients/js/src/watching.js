// A feed as one value that is replaced with each change: the list, and how the connection stands.

import { connect } from "./client.js";

/** Before anything is known. */
export const nothing = (feed) => ({ feed, epoch: "", seq: 0, capacity: 0, rows: [], drops: [], totals: {}, goals: [], state: "connecting" });

/** Gives `set` what is shown, first nothing, from now until the function that comes back is called. */
export function watching(options, set) {
  let shown = nothing(options.feed);
  const show = (now) => {
    shown = now;
    set(shown);
  };
  show(shown);
  const connection = connect({
    ...options,
    onChange: (list, change) => {
      show({ ...list, state: shown.state });
      options.onChange?.(list, change);
    },
    onState: (state, detail) => {
      show({ ...shown, state });
      options.onState?.(state, detail);
    },
  });
  return () => connection.close();
}
