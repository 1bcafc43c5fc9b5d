// A feed for as long as the app is seen: in the background the connection goes, and what is shown stays.

import { AppState } from "react-native";
import { connect, type ConnectOptions, type Watch } from "tipcast/client";

/** Watches until the function that it gives back is called. */
export function watch(options: ConnectOptions): () => void {
  let feed: Watch | null = null;
  let kept: Pick<ConnectOptions, "since" | "rows" | "drops"> = {};
  const open = () => {
    feed ??= connect({ ...options, ...kept });
  };
  const leave = () => {
    if (feed?.position) kept = { since: feed.position, rows: [...feed.rows], drops: [...feed.drops] };
    feed?.close();
    feed = null;
  };
  // "inactive" is a glance at something else, and keeps the connection.
  const states = AppState.addEventListener("change", (state) => {
    if (state === "active") open();
    else if (state === "background") leave();
  });
  open();
  return () => {
    states.remove();
    leave();
  };
}
