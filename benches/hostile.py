#!/usr/bin/env python3
"""What strangers can do to a gateway: each experiment of an audit, against a binary that it starts itself.

    benches/hostile.py target/release/tipcast [EXPERIMENT…]

Prints one line of figures for each. Needs Linux (/proc) and nothing but Python's library. All of it is on loopback.
"""
import base64
import json
import os
import resource
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

PORT = None


def connect():
    return socket.create_connection(("127.0.0.1", PORT), timeout=20)


def request(sock, method, path, body=None):
    """One request on a connection that stays; gives status and body."""
    body = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nContent-Type: application/json\r\n"
    sock.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    got = b""
    while b"\r\n\r\n" not in got:
        more = sock.recv(65536)
        if not more:
            raise OSError("closed")
        got += more
    head, rest = got.split(b"\r\n\r\n", 1)
    length = [int(l.split(b":")[1]) for l in head.lower().split(b"\r\n") if l.startswith(b"content-length:")]
    while length and len(rest) < length[0]:
        rest += sock.recv(65536)
    return int(head.split()[1]), rest


def websocket(path):
    sock = connect()
    key = base64.b64encode(os.urandom(16)).decode()
    sock.sendall(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    got = b""
    while b"\r\n\r\n" not in got:
        got += sock.recv(1)
    assert b" 101 " in got, got
    return sock


def text(value):
    payload = json.dumps(value).encode()
    mask = os.urandom(4)
    masked = bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
    size = bytes([0x80 | len(payload)]) if len(payload) < 126 else struct.pack("!BH", 0x80 | 126, len(payload))
    return b"\x81" + size + mask + masked


class Gateway:
    running = []

    def __init__(self, binary, files=None, env=()):
        global PORT
        self.dir = tempfile.mkdtemp(prefix="tipcast-hostile-")
        limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))) if files else None
        self.log = open(os.path.join(self.dir, "log"), "w")
        self.process = subprocess.Popen(
            [binary, "--listen", "127.0.0.1:0", "--data-dir", os.path.join(self.dir, "data")],
            stdout=subprocess.PIPE, stderr=self.log, text=True, preexec_fn=limit, env={**os.environ, **dict(env)},
        )
        Gateway.running.append(self)
        PORT = int(self.process.stdout.readline().strip().rsplit(":", 1)[1])
        time.sleep(0.5)

    def rss(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024

    def stop(self):
        Gateway.running.remove(self)
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class Producer(threading.Thread):
    """Posts one gift after the other, and remembers how long each took."""

    def __init__(self):
        super().__init__(daemon=True)
        self.times, self.failed, self.on = [], 0, True

    def run(self):
        sock, n = connect(), 0
        while self.on:
            n += 1
            gift = {"user": {"id": f"u{n % 50}", "name": "U"}, "gift": {"id": "rose", "name": "Rose"}}
            begun = time.monotonic()
            try:
                status, _ = request(sock, "POST", "/v1/feeds/producer/gifts", gift)
                self.failed += status not in (200, 201)
            except OSError:
                self.failed += 1
                sock = connect()
            self.times.append((begun, (time.monotonic() - begun) * 1e3))
            time.sleep(0.005)

    def p99(self, since, until):
        times = sorted(ms for at, ms in self.times if since <= at < until)
        return times[int(len(times) * 0.99)] if times else float("nan")


def subscriptions(binary):
    """10 000 made-up feeds subscribed and unsubscribed on one socket, while somebody else produces."""
    gateway = Gateway(binary)
    producer = Producer()
    producer.start()
    time.sleep(5)
    before, quiet = gateway.rss(), (time.monotonic() - 4, time.monotonic())
    begun, most, sent, closed = time.monotonic(), gateway.rss(), 0, 0
    sock = websocket("/v1/ws")
    sock.settimeout(0.01)

    def drain():
        try:
            while sock.recv(1 << 20):
                pass
            return False
        except TimeoutError:
            return True
        except OSError:
            return False

    while sent < 10_000 and time.monotonic() - begun < 60:
        name = base64.b32encode(os.urandom(10)).decode()
        try:
            sock.sendall(text({"type": "subscribe", "feed": name}) + text({"type": "unsubscribe", "feed": name}))
            sent += 1
            alive = sent % 50 or drain()
        except OSError:
            alive = False
        if not alive:
            # The answer asks to back off: a stranger does not.
            closed += 1
            try:
                sock = websocket("/v1/ws")
                sock.settimeout(0.01)
            except (OSError, AssertionError):
                time.sleep(0.1)
        if sent % 50 == 0:
            most = max(most, gateway.rss())
    ended = time.monotonic()
    most = max(most, gateway.rss())
    producer.on = False
    producer.join()
    print(
        f"subscriptions: {sent} pairs in {ended - begun:.1f} s, closed {closed} times; "
        f"RSS {before:.0f} -> {most:.0f} MB; another's POST p99 {producer.p99(*quiet):.1f} -> "
        f"{producer.p99(begun, ended):.1f} ms, {producer.failed} failed"
    )
    gateway.stop()


def amplification(binary):
    """Resuming a long way back, again and again, on one socket for four seconds."""
    gateway = Gateway(binary)
    sock = connect()
    request(sock, "PATCH", "/v1/feeds/show/policy", {"dedup": "off"})
    for batch in range(8):
        gifts = [
            {"id": f"b{batch}-{n}", "user": {"id": f"u{n}", "name": "U" * 60}, "gift": {"id": "r", "name": "R"},
             "message": "m" * 150} for n in range(128)
        ]
        assert request(sock, "POST", "/v1/feeds/show/gifts/batch", {"gifts": gifts})[0] == 200
    epoch = json.loads(request(sock, "GET", "/v1/feeds/show")[1])["epoch"]
    sock.close()
    out, into, begun, sockets = 0, 0, time.monotonic(), 1
    ws = websocket("/v1/ws")
    ws.setblocking(False)
    command = text({"type": "subscribe", "feed": "show", "since": f"{epoch}:1"})
    while time.monotonic() - begun < 4:
        try:
            into += ws.send(command * 8)
        except BlockingIOError:
            pass
        except OSError:
            break
        try:
            more = ws.recv(1 << 20)
            if not more:
                break
            out += len(more)
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            break
    print(
        f"amplification: {into / 1e3:.0f} KB in, {out / 1e6:.1f} MB out in {time.monotonic() - begun:.1f} s on one "
        f"socket{', which was closed' if time.monotonic() - begun < 4 else ''}"
    )
    gateway.stop()


def slow_requests(binary):
    """A second head that dribbles, and a chunked GET that never ends: how long the server keeps them."""
    gateway = Gateway(binary, env={"TIPCAST_HTTP__HEAD_TIMEOUT_MS": "2000", "TIPCAST_HTTP__BODY_TIMEOUT_MS": "2000"}.items())
    get = f"GET /v1/feeds/show HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n"
    lasted = {}
    for name, opening, dribble in [
        ("second head", get + "\r\n" + get + "X: ", b"x"),
        ("chunked GET", get + "Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ]:
        sock = connect()
        sock.sendall(opening.encode())
        sock.settimeout(0.1)
        begun = time.monotonic()
        try:
            while time.monotonic() - begun < 20:
                sock.sendall(dribble)
                try:
                    if not sock.recv(65536):
                        break
                except TimeoutError:
                    pass
        except OSError:
            pass
        lasted[name] = time.monotonic() - begun
    told = ", ".join(f"{name} {s:.1f} s" if s < 20 else f"{name} never" for name, s in lasted.items())
    print(f"slow requests, with time-outs of 2 s: closed after {told}")
    gateway.stop()


def descriptors(binary):
    """400 descriptors, and 600 connections that say nothing, or half a second head: does a producer get in?"""
    gateway = Gateway(binary, files=400)
    idlers, waits = [], []
    for n in range(600):
        try:
            sock = connect()
            if n % 2:
                sock.sendall(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n\r\nGET".encode())
            idlers.append(sock)
        except OSError:
            pass
    for n in range(20):
        begun = time.monotonic()
        try:
            sock = connect()
            sock.settimeout(20)
            gift = {"user": {"id": f"u{n}", "name": "U"}, "gift": {"id": "rose", "name": "Rose"}}
            status, _ = request(sock, "POST", "/v1/feeds/show/gifts", gift)
            assert status in (200, 201), status
            waits.append(time.monotonic() - begun)
            sock.close()
        except OSError:
            waits.append(float("inf"))
    print(f"descriptors: {len(idlers)} idlers on 400; 20 new producers waited {statistics.median(waits):.3f} s, at most {max(waits):.3f} s")
    gateway.stop()


def malformed(binary):
    """Heads with bare LF, and meta of 127 levels."""
    gateway = Gateway(binary)
    told = []
    for head in ["GET /healthz HTTP/1.1\nHost: x\n\n", "GET /healthz HTTP/1.1\r\nHost: x\nA: b\r\n\r\n"]:
        sock = connect()
        sock.sendall(head.encode())
        told.append(sock.recv(65536).split(b"\r\n")[0].decode())
    meta = json.loads('{"a":' * 127 + "1" + "}" * 127)
    gift = {"user": {"id": "u", "name": "U"}, "gift": {"id": "r", "name": "R"}, "meta": meta}
    told.append(f"meta of 127 levels: {request(connect(), 'POST', '/v1/feeds/show/gifts', gift)[0]}")
    print("malformed: " + "; ".join(told))
    gateway.stop()


def cpu(gateway):
    """Seconds of all its threads, to the nanosecond."""
    tasks = f"/proc/{gateway.process.pid}/task"
    return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0]) for task in os.listdir(tasks)) / 1e9


def fill(sock, feed, gifts):
    for at in range(0, len(gifts), 128):
        status, answer = request(sock, "POST", f"/v1/feeds/{feed}/gifts/batch", {"gifts": gifts[at:at + 128]})
        assert status == 200 and json.loads(answer)["rejected"] == 0, answer[:500]


def gift_of(n, **more):
    return {"id": f"g{n}", "user": {"id": f"u{n}", "name": "U"}, "gift": {"id": "rose", "name": "Rose"}, **more}


def long_feeds(sock):
    """Feeds that are as long as anybody can make them."""
    def policy(feed, **members):
        status, answer = request(sock, "PUT", f"/v1/feeds/{feed}/policy", members)
        assert status == 200, answer

    policy("review", review="messages", review_timeout_ms=3_600_000)
    fill(sock, "review", [gift_of(n, test=True, delay_ms=86_400_000) for n in range(99_840)])
    fill(sock, "review", [gift_of(f"r{n}", message="m") for n in range(999)])
    policy("row", dedup="combine", dedup_window_ms=86_400_000)
    value = {"amount": 10, "currency": "EUR"}
    fill(sock, "row", [{**gift_of(n, value=value), "user": {"id": "u", "name": "U"}} for n in range(9_984)])
    for n in range(9_984):
        part = {"refunded": 1}
        status, answer = request(sock, "POST", f"/v1/feeds/row/gifts/g{n}/refund", part)
        assert status == 200, answer
    policy("ledger", totals=["all"], points={"EUR": 1})
    fill(sock, "ledger", [gift_of(n, value=value) for n in range(200_000)])
    for n in range(64):
        drop = {"total": 100, "gift": {"id": "rose", "name": "Rose"}}
        status, answer = request(sock, "PUT", f"/v1/feeds/drops/drops/d{n}", drop)
        assert status in (200, 201), answer
    policy("private", visibility="private")


def dearest(binary):
    """What a request costs a gateway whose feeds are long: the ten that cost most for each KB sent."""
    gateway = Gateway(binary, env={"TIPCAST_REPORTS__LEDGER_MAX": "200000", "TIPCAST_LIMITS__REQUESTS_PER_SECOND": "0"}.items())
    sock = connect()
    long_feeds(sock)
    _, listed = request(sock, "GET", "/v1/feeds/row")
    row = json.loads(listed)["rows"][0]["row"]
    refused = {"gifts": [gift_of(f"x{n}", message="m") for n in range(128)]}
    nested = gift_of("n", meta=json.loads('{"a":' * 30 + "1" + "}" * 30))
    kinds = [
        ("a batch of 128 that review has no room for", 20, "POST", "/v1/feeds/review/gifts/batch", refused),
        ("the review", 20, "GET", "/v1/feeds/review/review", None),
        ("scheduled gifts", 20, "GET", "/v1/feeds/review/scheduled", None),
        ("a filtered page of a ledger of 200 000", 20, "GET", "/v1/feeds/ledger/ledger?type=gift.retracted", None),
        ("a gift's story there", 20, "GET", "/v1/feeds/ledger/gifts/g100000", None),
        ("the ledger's sum", 20, "GET", "/v1/feeds/ledger/ledger/summary", None),
        ("leaders of 200 000 gifters *", 200, "GET", "/v1/feeds/ledger/leaders?period=all&limit=100", None),
        ("leaders of a currency that nobody gave *", 200, "GET", "/v1/feeds/ledger/leaders?period=all&by=XTS", None),
        ("totals *", 200, "GET", "/v1/feeds/ledger/totals", None),
        ("64 drops *", 200, "GET", "/v1/feeds/drops/drops", None),
        ("a list *", 200, "GET", "/v1/feeds/ledger", None),
        ("a private feed, without a token *", 200, "GET", "/v1/feeds/private", None),
        ("how many watch *", 200, "GET", "/v1/feeds/ledger/presence", None),
        ("a feed that is not there *", 200, "GET", "/v1/feeds/nobody", None),
        ("readiness *", 200, "GET", "/readyz", None),
        ("metrics *", 100, "GET", "/metrics", None),
        ("the first page *", 100, "GET", "/", None),
        ("the documentation *", 100, "GET", "/docs", None),
        ("the OpenAPI document *", 100, "GET", "/openapi.json", None),
        ("a delivery to a source that is not there *", 200, "POST", "/in/none/none", refused),
        ("a gift whose meta is nested", 200, "POST", "/v1/feeds/nested/gifts", nested),
        ("a gift that is refused", 200, "POST", "/v1/feeds/bad/gifts", {"user": "x" * 7_000}),
        ("taking back a row of 9 984 gifts that were refunded in part", 1, "DELETE", f"/v1/feeds/row/rows/{row}", None),
    ]
    costs = []
    for name, times, method, path, body in kinds:
        kilobytes = (len(path) + 130 + (0 if body is None else len(json.dumps(body)))) / 1e3
        if times > 1:
            request(sock, method, path, body)
        before, waited, status = cpu(gateway), 0, None
        for _ in range(times):
            began = time.monotonic()
            status, _ = request(sock, method, path, body)
            waited = max(waited, time.monotonic() - began)
        # What a call leaves to others, such as the disk, is its cost as well.
        time.sleep(0.3)
        costs.append(((cpu(gateway) - before) / times * 1e3, kilobytes, waited * 1e3, status, name))
    print("dearest, per KB sent, of the CPU of the gateway (* what anybody may ask):")
    for milliseconds, kilobytes, waited, status, name in sorted(costs, key=lambda it: -it[0] / it[1]):
        print(f"  {milliseconds / kilobytes:7.2f} ms a KB, {milliseconds:7.3f} ms each, at most {waited:6.1f} ms, {status}: {name}")
    gateway.stop()


EXPERIMENTS = [subscriptions, amplification, slow_requests, descriptors, malformed, dearest]

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    chosen = sys.argv[2:] or [experiment.__name__ for experiment in EXPERIMENTS]
    for experiment in EXPERIMENTS:
        if experiment.__name__ in chosen:
            try:
                experiment(sys.argv[1])
            except Exception as error:  # one that fails is a result too
                print(f"{experiment.__name__}: failed: {error!r}")
            for gateway in list(Gateway.running):
                gateway.stop()
