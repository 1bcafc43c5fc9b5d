"""A gateway of tomorrow: its first claim has every sample of docs/events, and an entry of a type that nobody knows yet."""

import http.server
import json
import pathlib

EVENTS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "events"
entries = [json.loads(path.read_text()) for path in sorted(EVENTS.glob("*.json")) if ".schema." not in path.name]
unknown = {"cursor": "1795177783042018", "event_id": "demo/1795177783042018", "type": "gift.polished", "feed": "demo",
           "at": "2026-01-31T20:00:00.000Z", "attempt": 1, "shine": {"level": 9}}
given: set[str] = set()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        feed = self.path.split("/")[3]
        if self.path.endswith("/claim"):
            answer = {"entries": [] if feed in given else [*entries, unknown]}
            given.add(feed)
        else:
            answer = {"acked": len(body["cursors"]), "unknown": 0}
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
