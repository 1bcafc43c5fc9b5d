// A feed as a store of Svelte, which is anything with `subscribe`: it connects with the first subscriber and closes with the last.

import { nothing, watching } from "./watching.js";

/** `const show = feed({ feed: "demo" })`, then `$show.rows`. */
export function feed(options) {
  const subscribers = new Set();
  let shown = nothing(options.feed);
  let close;
  return {
    subscribe(run) {
      subscribers.add(run);
      run(shown);
      close ??= watching(options, (now) => {
        shown = now;
        for (const each of subscribers) each(shown);
      });
      return () => {
        subscribers.delete(run);
        if (subscribers.size) return;
        close?.();
        close = undefined;
      };
    },
  };
}
