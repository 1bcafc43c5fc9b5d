"""Gifts in: Tipcast over Redis beside what Redis itself can do with the same script, and the embedded
engine."""

import codecs
import json
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import servers
from servers import Redis, Tipcast

sys.path.append(str(Path(__file__).parent.parent))
from repeatable import repeatable  # noqa: E402

BATCH = 64
# The part of a gift's id that is random in every call of redis-benchmark: as long as what it puts there.
FIXED = "000000000000"
RANDOM = "__rand_int__"
LARGEST = 2_000_000_000
# More gifts than a list holds.
FULL = 12


def measure(run):
    base = ["--watchers", 0, "--rate", 0]
    shapes = [
        ("single POSTs, 64 connections", 1, base + ["--in-flight", 64]),
        (f"batches of {BATCH}, 16 connections", BATCH, base + ["--in-flight", 16 * BATCH, "--batch", BATCH]),
    ]
    more = ("single POSTs, 256 connections", 1, base + ["--in-flight", 256])
    for name, _, work in [*shapes, more]:
        with Tipcast() as server:
            report = run.load(server, work)
        run.add("ingest", {"server": "embedded", "version": server.version, "name": name}, report)
    try:
        for name, batch, work in shapes:
            with Redis() as redis:
                with Tipcast(f"redis://127.0.0.1:{redis.port}") as server:
                    command = call_of(server, redis, batch)
                    report = run.load(server, work)
                    run.add("ingest", {"server": "Redis", "version": redis.version, "name": name}, report)
                connections = 64 if batch == 1 else 16
                alone = benchmark(redis, command, connections, batch, run.seconds)
                row = {"server": "redis-benchmark", "version": redis.version,
                       "name": f"the same script, {name}"}
                run.add("ingest", row, {"gifts": {"per_second": alone}})
    except servers.Missing as why:
        run.missing["Redis"] = str(why)
        print(f"  Redis is left out: {why}", flush=True)


def call_of(server, redis, batch):
    """The very call that the gateway makes for one request with this number of gifts, as Redis sees it."""
    feed = f"http://127.0.0.1:{server.port}/v1/feeds/bench-ceiling"
    ask(f"{feed}/policy", {"dedup": "off"}, "PUT")
    # A full list, as nearly all are.
    for n in range(FULL):
        ask(f"{feed}/gifts", gift(f"first-{n}"))
    with socket.create_connection(("127.0.0.1", redis.port), 5) as monitor:
        monitor.sendall(b"MONITOR\r\n")
        lines = monitor.makefile("rb")
        lines.readline()
        if batch == 1:
            ask(f"{feed}/gifts", gift(f"g0-{FIXED}"))
        else:
            gifts = [gift(f"g{n}-{FIXED}") for n in range(batch)]
            ask(f"{feed}/gifts/batch", {"gifts": gifts})
        while True:
            line = lines.readline()
            if not line:
                raise servers.Missing("Redis ended while it was looked at")
            if b'"EVALSHA"' in line.upper() and FIXED.encode() in line and b" lua]" not in line:
                break
    words = [codecs.escape_decode(word)[0].decode() for word in re.findall(rb'"((?:[^"\\]|\\.)*)"', line)]

    return repeatable([word.replace(FIXED, RANDOM) for word in words])


def tool(name):
    """A program that comes with Redis."""
    return servers.program("redis-server").replace("redis-server", name)


def gift(name):
    return {"id": name, "user": {"id": "viewer-0001", "name": "Viewer 0001"}, "message": "~0000000001",
            "gift": {"id": "rose", "name": "Rose"}, "value": {"amount": 150, "currency": "EUR"}}


def ask(url, body, method="POST"):
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), head, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()


def benchmark(redis, command, connections, batch, seconds):
    """Gifts per second that redis-benchmark gets out of this call."""
    def calls(number):
        line = [tool("redis-benchmark"), "-p", str(redis.port), "-c", str(connections), "-n", str(number),
                "-r", str(LARGEST), "--csv", *command]
        done = subprocess.run(line, capture_output=True, check=False)
        fields = done.stdout.decode(errors="replace").strip().splitlines()[-1].rsplit('","', 7)
        return float(fields[-7].strip('"'))

    # A short run says how many calls fill the time.
    first = calls(2_000)
    return round(calls(int(first * seconds)) * batch)
