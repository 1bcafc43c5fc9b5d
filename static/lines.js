/**
 * The two ways to the gateway. Each takes an address and calls `heard(text)` for every frame and,
 * once, `ended(code, reason)`; neither reconnects by itself. The last argument has the classes of the transports. They
 * give back `{close()}`, and a socket `send(text)` too.
 */

/** What the protocol's events are called. */
const EVENTS = ["snapshot", "resumed", "delta", "keepalive", "presence", "goodbye", "error"];

/** `first`: what is sent before anything else, if anything. */
export function bySocket(url, heard, ended, { WebSocket }, first) {
  const ws = new WebSocket(url);
  if (first) ws.onopen = () => ws.send(first);
  ws.onmessage = ({ data }) => heard(data);
  // The close that follows says what went wrong; Node's `ws` throws where nobody listens.
  ws.onerror = () => {};
  ws.onclose = ({ code, reason }) => ended(code, reason);
  return {
    close: () => ws.close(),
    send: (text) => {
      if (ws.readyState === 1) ws.send(text);
    },
  };
}

export function byEvents(url, heard, ended, { EventSource }) {
  const source = new EventSource(url);
  const close = () => {
    // EventSource would come back on its own, at its own pace and from its own position.
    source.close();
    ended(1006, "");
  };
  for (const name of EVENTS) {
    source.addEventListener(name, (event) => {
      // "error" is also what a lost stream is called, then without data.
      if (typeof event.data === "string") heard(event.data);
    });
  }
  source.onerror = (event) => {
    if (typeof event.data !== "string") close();
  };
  return { close };
}
