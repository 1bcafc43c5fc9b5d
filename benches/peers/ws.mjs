// ws beside us: `POST /pub/FEED` goes to everybody who watches `/sub/FEED`.
import { createServer } from "node:http";
import { WebSocketServer } from "ws";

const feeds = new Map();
const server = createServer((request, answer) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const text = Buffer.concat(parts);
    for (const watcher of feeds.get(request.url.slice("/pub/".length)) ?? []) {
      watcher.send(text, { binary: false });
    }
    answer.writeHead(202, { "Content-Length": 0 }).end();
  });
});
server.keepAliveTimeout = 0;
new WebSocketServer({ server, perMessageDeflate: false }).on("connection", (watcher, request) => {
  const feed = request.url.slice("/sub/".length);
  const watchers = feeds.get(feed) ?? new Set();
  feeds.set(feed, watchers.add(watcher));
  watcher.on("close", () => watchers.delete(watcher));
  watcher.on("error", () => {});
});
server.listen({ host: "127.0.0.1", port: Number(process.argv[2]), backlog: 4096 });
