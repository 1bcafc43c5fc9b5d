// The client as `tipcast-rehearse` plays with it: prints its list each time that it has changed.

import { WebSocket } from "ws";

import { connect } from "../dist/client.js";

const name = (row) => (row.rev === 1 ? row.row : `${row.row}@${row.rev}`);
let tokens = 0;

connect({
  url: process.env.TIPCAST_URL,
  feed: process.env.TIPCAST_FEED,
  WebSocket,
  without: process.env.TIPCAST_WITHOUT || undefined,
  token: () => `token-${++tokens}`,
  onChange: ({ epoch, seq, rows }) => console.log(JSON.stringify({ position: `${epoch}:${seq}`, rows: rows.map(name) })),
  onState: (state, { code }) => state === "closed" && code >= 4000 && setTimeout(() => {}, 60_000),
});
