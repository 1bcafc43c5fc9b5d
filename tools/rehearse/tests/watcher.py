"""A small watcher for `tipcast-rehearse`, with nothing but Python's own library. BREAK names what it does wrong."""

import base64
import json
import os
import random
import select
import socket
import struct
import sys
import time
from urllib.parse import urlsplit

BREAK = os.environ.get("BREAK", "")
FEED = os.environ["TIPCAST_FEED"]
WITHOUT = "" if BREAK == "without" else os.environ.get("TIPCAST_WITHOUT", "")
HOST = urlsplit(os.environ["TIPCAST_URL"])


class Ended(Exception):
    """The connection has ended; with a status or a close code where there is one."""

    def __init__(self, code=1006, retry_after=None):
        super().__init__(code)
        self.code, self.retry_after = code, retry_after


class Line:
    def __init__(self, query, token):
        self.socket = socket.create_connection((HOST.hostname, HOST.port), timeout=15)
        self.buffer = b""
        key = base64.b64encode(os.urandom(16)).decode()
        request = [
            f"GET /v1/feeds/{FEED}/ws{query} HTTP/1.1", f"Host: {HOST.netloc}", "Upgrade: websocket",
            "Connection: Upgrade", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}",
            f"Authorization: Bearer {token}",
        ]
        self.socket.sendall(("\r\n".join(request) + "\r\n\r\n").encode())
        until = time.monotonic() + 15
        while b"\r\n\r\n" not in self.buffer:
            self.more(until)
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        status = int(lines[0].split()[1])
        if status != 101:
            headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
            raise Ended(status, headers.get("retry-after"))

    def more(self, until):
        left = until - time.monotonic()
        if left <= 0 or not select.select([self.socket], [], [], left)[0]:
            raise Ended()
        got = self.socket.recv(65536)
        if not got:
            raise Ended()
        self.buffer += got

    def take(self, count, until):
        while len(self.buffer) < count:
            self.more(until)
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def message(self, until):
        text = b""
        while True:
            first, second = self.take(2, until)
            length = second & 127
            if length == 126:
                (length,) = struct.unpack(">H", self.take(2, until))
            elif length == 127:
                (length,) = struct.unpack(">Q", self.take(8, until))
            payload = self.take(length, until)
            kind = first & 15
            if kind == 8:
                self.send(8, payload)
                raise Ended(struct.unpack(">H", payload[:2])[0] if payload else 1005)
            if kind == 9:
                if BREAK != "pong":
                    self.send(10, payload)
                continue
            text += payload
            if first & 128:
                return json.loads(text)

    def send(self, kind, payload):
        mask = os.urandom(4)
        masked = bytes(b ^ mask[n % 4] for n, b in enumerate(payload))
        head = bytes([128 | kind, 128 | len(payload)]) if len(payload) < 126 else (
            bytes([128 | kind, 254]) + struct.pack(">H", len(payload)))
        self.socket.sendall(head + mask + masked)


class Watcher:
    def __init__(self):
        self.epoch, self.seq, self.rows, self.capacity = None, 0, [], 10
        self.tokens, self.token = 0, ""
        self.keepalive, self.away = 15, None

    def new_token(self):
        self.tokens += 0 if BREAK == "token" and self.tokens else 1
        self.token = f"token-{self.tokens}"

    def show(self):
        rows = [row["row"] if row["rev"] == 1 else f"{row['row']}@{row['rev']}" for row in self.rows]
        print(json.dumps({"position": f"{self.epoch}:{self.seq}", "rows": rows}), flush=True)

    def fold(self, frame):
        """False when the line is not to be trusted any more."""
        kind = frame["type"]
        if kind == "snapshot":
            self.epoch, self.seq, self.rows = frame["epoch"], frame["seq"], frame["rows"]
            self.capacity = frame["capacity"]
        elif kind == "resumed":
            if (frame["epoch"], frame["seq"]) != (self.epoch, self.seq):
                self.epoch = None
                return False
        elif kind == "delta":
            if frame["ops"][0]["seq"] != self.seq + 1 and BREAK != "gap":
                return False
            for op in frame["ops"]:
                self.seq = op["seq"]
                if op["op"] == "add":
                    self.rows = [op["row"], *self.rows][: self.capacity]
        elif kind == "keepalive":
            return frame["seq"] == self.seq
        elif kind == "goodbye":
            self.away = frame["reconnect_in_ms"] / 1000
        else:
            return True
        if "keepalive_ms" in frame:
            self.keepalive = frame["keepalive_ms"] / 1000
        if kind != "goodbye":
            self.show()
        return True

    def watch(self):
        asked = [f"since={self.epoch}:{self.seq}"] if self.epoch else []
        asked += [f"without={WITHOUT}"] if WITHOUT else []
        query = "?" + "&".join(asked) if asked else ""
        line = Line(query, self.token)
        try:
            while True:
                silence = 3600 if BREAK == "silence" else self.keepalive + 5
                frame = line.message(time.monotonic() + silence)
                if frame["type"] == "token":
                    self.new_token()
                    line.send(1, json.dumps({"type": "auth", "token": self.token}).encode())
                elif not self.fold(frame):
                    raise Ended()
        finally:
            line.socket.close()

    def run(self):
        failures = 0
        self.new_token()
        while True:
            begun = time.monotonic()
            try:
                self.watch()
            except Ended as ended:
                code, retry_after = ended.code, ended.retry_after
            except OSError:
                code, retry_after = 1006, None
            failures = 0 if time.monotonic() - begun > 10 else failures
            pause = random.uniform(0, min(20, 0.5 * 2 ** failures))
            failures += 1
            if code in (401, 403, 404) or 4000 <= code < 4100:
                if BREAK != "stop":
                    time.sleep(3600)
            elif code == 4101:
                self.new_token()
                pause = 0
            elif retry_after:
                pause = int(retry_after) * random.uniform(1, 2)
            elif 4200 <= code < 4300 and self.away is not None:
                pause, self.away = self.away, None
            time.sleep(0 if BREAK == "pause" else pause)


try:
    Watcher().run()
except BrokenPipeError:
    sys.exit(0)
