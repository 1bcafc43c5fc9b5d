// A feed in React: what is on air as state, and the ticker as a component.

import { createElement, useEffect, useRef, useState } from "react";
import { nothing, watching } from "./watching.js";

/** Watches a feed for as long as the component is there. Another `url`, `feed`, `without` or `as` connects anew. */
export function useFeed(options) {
  const { url, feed, without, as } = options;
  const [shown, setShown] = useState(() => nothing(feed));
  // Functions and classes are mostly made anew with each render; the newest are called, and none of them connects anew.
  const newest = useRef(options);
  newest.current = options;
  useEffect(() => {
    const { token } = newest.current;
    return watching({
      ...newest.current,
      token: typeof token === "function" ? (about) => newest.current.token(about) : token,
      onChange: (...change) => newest.current.onChange?.(...change),
      onState: (...state) => newest.current.onState?.(...state),
    }, setShown);
  }, [String(url), feed, without, as]);
  return shown;
}

/** `<tipcast-ticker>`, whose module is loaded in the browser only: a page can be rendered on a server. */
export function Ticker({ className, ...attributes }) {
  useEffect(() => void import("./element.js"), []);
  // React 18 leaves `className` of a custom element as it is; `class` is what both understand.
  return createElement("tipcast-ticker", className === undefined ? attributes : { ...attributes, class: className });
}
