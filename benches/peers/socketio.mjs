// Socket.IO beside us: `POST /pub/FEED` goes to everybody who connected with `?feed=FEED`.
import { createServer } from "node:http";
import { Server } from "socket.io";

const server = createServer((request, answer) => {
  if (!request.url.startsWith("/pub/")) return;
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    io.to(request.url.slice("/pub/".length)).emit("delta", JSON.parse(Buffer.concat(parts)));
    answer.writeHead(202, { "Content-Length": 0 }).end();
  });
});
server.keepAliveTimeout = 0;
const io = new Server(server, { transports: ["websocket"], perMessageDeflate: false, httpCompression: false });
io.on("connection", (socket) => socket.join(socket.handshake.query.feed));
server.listen({ host: "127.0.0.1", port: Number(process.argv[2]), backlog: 4096 });
