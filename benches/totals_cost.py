#!/usr/bin/env python3
"""What counting costs: microseconds of Redis for each gift, by its own `INFO commandstats` (all scripts, adding up and
telling watchers included) and by its CPU, with nothing counted and with everything, single gifts and batches, of many
gifters and of one; how often watchers are told; what reading costs with many gifters; and the same of the embedded engine
as time for each gift.

    python3 benches/totals_cost.py path/to/tipcast [--gifters 100000]

Starts a redis-server and gateways of its own on free ports, and stops them.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import tempfile
import threading
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Gateway:
    def __init__(self, binary, folder, redis=None):
        self.port = free_port()
        args = [binary, "--listen", f"127.0.0.1:{self.port}", "--data-dir", folder]
        if redis:
            args += ["--redis", f"redis://127.0.0.1:{redis}"]
        self.process = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            try:
                if self.call("GET", "/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit("the gateway does not get ready")

    def call(self, method, path, body=None):
        connection = getattr(self, "connection", None) or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        self.connection = connection
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        except (OSError, http.client.HTTPException):
            self.connection = None
            raise OSError

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def gift(n, users):
    user = f"u{n * 7919 % users}"
    return {
        "id": f"g{n}", "user": {"id": user, "name": f"user {user}"}, "gift": {"id": "rose", "name": "Rose"}, "count": 1 + n % 3,
        "value": {"amount": 100 + n % 900, "currency": "EUR"},
    }


def cpu_of(pid):
    """Microseconds."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1e6


def stats(port):
    """Calls and microseconds of scripts."""
    said = subprocess.run(["redis-cli", "-p", str(port), "INFO", "commandstats"], capture_output=True, text=True).stdout
    line = next((line for line in said.splitlines() if line.startswith("cmdstat_evalsha:")), None)
    fields = dict(part.split("=") for part in line.split(":")[1].split(",")) if line else {"calls": 0, "usec": 0}
    return int(fields["calls"]), int(fields["usec"])


EVERYTHING = {"totals": ["all", "session", "day", "week", "month"], "points": {"EUR": 2}, "dedup": "off"}
NOTHING = {"totals": [], "dedup": "off"}


def feed_of(gateway, name, policy, gifts, users, batch, redis=None, pid=None):
    path = f"/v1/feeds/{name}"
    assert gateway.call("PUT", f"{path}/policy", policy)[0] == 200
    gateway.call("POST", f"{path}/gifts/batch", {"gifts": [gift(-1 - n, users) for n in range(min(batch, 128))]})
    time.sleep(1.5)
    before, cpu, began = stats(redis) if redis else None, cpu_of(pid) if pid else None, time.time()
    for first in range(0, gifts, batch):
        status, said = gateway.call("POST", f"{path}/gifts/batch", {"gifts": [gift(n, users) for n in range(first, first + batch)]})
        assert status == 200 and said["rejected"] == 0, said
    took = time.time() - began
    if not redis:
        return took / gifts * 1e6
    time.sleep(1.5)
    after = stats(redis)
    return (after[1] - before[1]) / gifts, (cpu_of(pid) - cpu) / gifts


class Watching(threading.Thread):
    """An event stream of a feed: when totals were announced, and what they were last."""

    def __init__(self, port, feed):
        super().__init__(daemon=True)
        self.stream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.stream.request("GET", f"/v1/feeds/{feed}/sse")
        self.lines = self.stream.getresponse()
        self.told, self.gifts = [], 0
        self.start()

    def run(self):
        try:
            for line in self.lines:
                if line.startswith(b"data:") and b'"totals"' in line:
                    said = json.loads(line[5:])
                    for op in said.get("ops", []):
                        if op["op"] == "totals":
                            self.told.append(time.time())
                            self.gifts = op["totals"]["all"]["gifts"]
        except (OSError, ValueError, http.client.HTTPException):
            pass


def rates(gateway, engine):
    """How often a watcher gets a frame, and how late it has the last state, from ten gifts a second to ten thousand."""
    for rate in (10, 100, 1000, 10_000):
        name, seconds = f"rate-{rate}", 6
        path = f"/v1/feeds/{name}"
        gateway.call("PUT", f"{path}/policy", EVERYTHING)
        gateway.call("POST", f"{path}/gifts", gift(0, 1000))
        time.sleep(2)
        watching = Watching(gateway.port, name)
        time.sleep(0.5)
        sent, began = 1, time.time()
        while time.time() - began < seconds:
            due = int((time.time() - began) * rate)
            if due > sent:
                many = [gift(n, 1000) for n in range(sent, min(due, sent + 128))]
                status, said = gateway.call("POST", f"{path}/gifts/batch", {"gifts": many})
                assert status == 200 and said["rejected"] == 0, said
                sent += len(many)
            time.sleep(0.001)
        posted = time.time()
        while watching.gifts < sent and time.time() - posted < 30:
            time.sleep(0.005)
        late, told = time.time() - posted, [at for at in watching.told if at < posted]
        most = max((sum(1 for at in told if first <= at < first + 1) for first in told), default=0)
        print(
            f"{engine}, {rate} gifts/s wanted, {sent / (posted - began):.0f} sent for {seconds} s: {len(told) / seconds:.2f} "
            f"announcements a second at a watcher, {most} at most within one; the last state {late * 1000:.0f} ms after the last gift",
            flush=True,
        )


def many(gateway, gifters, engine, used):
    """Everybody counted and ranked: what gifts and reads cost, by the microseconds of `used`."""
    path, before = "/v1/feeds/many", used()
    gateway.call("PUT", f"{path}/policy", EVERYTHING)
    began = time.time()
    for first in range(0, gifters, 128):
        some = [{**gift(n, 10**9), "id": f"m{n}", "user": {"id": f"u{n}", "name": f"user {n}"}} for n in range(first, min(first + 128, gifters))]
        status, said = gateway.call("POST", f"{path}/gifts/batch", {"gifts": some})
        assert status == 200 and said["rejected"] == 0, said
    while gateway.call("GET", f"{path}/totals")[1]["totals"]["all"]["gifts"] < gifters:
        time.sleep(0.1)
    after = used()
    print(f"{engine}, {gifters} gifters in batches of 128: {(after - before) / gifters:.1f} us a gift, {time.time() - began:.1f} s in all", flush=True)
    mid = f"{path}/leaders?period=all&by=EUR&limit=100&user=u{gifters // 2}"
    began, after = time.time(), used()
    gateway.call("GET", mid)
    first, between = time.time() - began, used()
    # One by one, since what the gateway does beside them counts too.
    took, work = [], []
    for _ in range(51):
        began, before = time.time(), used()
        for _ in range(10):
            status, said = gateway.call("GET", mid)
        took.append((time.time() - began) / 10)
        work.append((used() - before) / 10)
    print(
        f"{engine}, 100 leaders and a rank among them, {said.get('user')}: the first read {first * 1000:.0f} ms ({(between - after) / 1000:.0f} ms of work), "
        f"each after it {statistics.median(took) * 1000:.1f} ms ({statistics.median(work):.0f} us)", flush=True
    )
    before = used()
    for n in range(400):
        gateway.call("POST", f"{path}/gifts", {**gift(n, 10**9), "id": f"late{n}", "user": {"id": f"u{n * 31 % gifters}", "name": "x"}})
    time.sleep(1.5)
    print(f"{engine}, a gift among {gifters} gifters whose ranking is kept, one a call: {(used() - before) / 400:.1f} us", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("--gifters", type=int, default=100_000)
    arguments.add_argument("--gifts", type=int, default=20_000)
    arguments.add_argument("--only-rates", action="store_true", help="how often watchers are told; nothing else")
    arguments.add_argument("--only-many", action="store_true", help="many gifters, on both engines; nothing else")
    arguments.add_argument("--only-cost", action="store_true", help="of gifts on Redis; nothing else")
    wishes = arguments.parse_args()
    folder, port = tempfile.mkdtemp(), free_port()
    redis = subprocess.Popen(
        ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", folder], stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(0.5)
        gateway = Gateway(wishes.binary, folder + "/a", port)
        if wishes.only_rates:
            rates(gateway, "redis")
            gateway.stop()
            gateway = Gateway(wishes.binary, folder + "/b")
            rates(gateway, "embedded")
            gateway.stop()
            return
        if wishes.only_many:
            many(gateway, wishes.gifters, "redis", lambda: stats(port)[1])
            gateway.stop()
            gateway = Gateway(wishes.binary, folder + "/b")
            many(gateway, wishes.gifters, "embedded", lambda: cpu_of(gateway.process.pid))
            gateway.stop()
            return
        for batch, users in ((1, 1000), (1, 1), (64, 1000), (64, 1)):
            gifts = wishes.gifts // (8 if batch == 1 else 1) // batch * batch
            off, off_cpu = feed_of(gateway, f"off-{batch}-{users}", NOTHING, gifts, users, batch, port, redis.pid)
            on, on_cpu = feed_of(gateway, f"on-{batch}-{users}", EVERYTHING, gifts, users, batch, port, redis.pid)
            print(
                f"redis, {batch} a call, {users} gifters: {off:.1f} us a gift off, {on:.1f} on ({on / off:.2f} x); "
                f"by CPU {off_cpu:.1f} off, {on_cpu:.1f} on ({on_cpu / off_cpu:.2f} x)", flush=True
            )
        if wishes.only_cost:
            gateway.stop()
            return
        many(gateway, wishes.gifters, "redis", lambda: stats(port)[1])
        rates(gateway, "redis")
        gateway.stop()
        gateway = Gateway(wishes.binary, folder + "/b")
        for batch in (1, 128):
            gifts = wishes.gifts // (20 if batch == 1 else 1)
            off = feed_of(gateway, f"off-{batch}", NOTHING, gifts, 5000, batch)
            on = feed_of(gateway, f"on-{batch}", EVERYTHING, gifts, 5000, batch)
            print(f"embedded, {batch} a call, one after the other: {off:.0f} us a gift off, {on:.0f} on ({on / off:.2f} x)")
        many(gateway, wishes.gifters, "embedded", lambda: cpu_of(gateway.process.pid))
        rates(gateway, "embedded")
        gateway.stop()
    finally:
        redis.terminate()
        redis.wait(10)


if __name__ == "__main__":
    main()
