"""A game backend that receives gifts: Flask, and the official library of Standard Webhooks.

Prints its port, then a line for each gift that is new to it. A third of its answers is a failure after the
work was done, so that deliveries are repeated. Without Flask and the library it does the same by Python's own
means; the first line says which.
"""

import base64, hashlib, hmac, json, os, socket, sys, time

SECRET = os.environ["SECRET"]
seen, count = set(), 0


def say(*words):
    print(*words, flush=True)


def receive(payload):
    """Takes a delivery whose signature was good; gives the status to answer."""
    global count
    count += 1
    for entry in payload["entries"]:
        gift = entry["gift"]
        if (payload["feed"], gift["id"]) not in seen:
            seen.add((payload["feed"], gift["id"]))
            say("gift", payload["feed"], gift["id"], gift["user"]["name"], entry["type"])
    return 503 if count % 3 == 1 else 204


def with_flask():
    from flask import Flask, request
    from standardwebhooks import Webhook, WebhookVerificationError
    from werkzeug.serving import make_server

    app = Flask(__name__)

    @app.post("/game")
    def game():
        try:
            payload = Webhook(SECRET).verify(request.get_data(), dict(request.headers))
        except WebhookVerificationError as why:
            say("refused", why)
            return "", 400
        return "", receive(payload), {"Retry-After": "1"}

    server = make_server("127.0.0.1", 0, app, threaded=True)
    say("flask", server.server_port)
    server.serve_forever()


def without():
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Game(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            id, at = self.headers["webhook-id"], self.headers["webhook-timestamp"]
            key = base64.b64decode(SECRET.removeprefix("whsec_"))
            signed = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
            wanted = "v1," + base64.b64encode(signed).decode()
            good = wanted in self.headers["webhook-signature"].split(" ") and abs(time.time() - int(at)) < 300
            if not good:
                say("refused")
            self.send_response(receive(json.loads(body)) if good else 400)
            self.send_header("Retry-After", "1")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Game)
    say("plain", server.server_port)
    server.serve_forever()


if __name__ == "__main__":
    try:
        import flask, standardwebhooks  # noqa: F401
    except ImportError:
        without()
    else:
        with_flask()
