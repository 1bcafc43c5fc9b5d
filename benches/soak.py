#!/usr/bin/env python3
"""A long run of one gateway that is killed again and again: nothing acknowledged is lost, and nothing grows.

    benches/soak.py target/release/tipcast --minutes 120 --csv soak.csv --log soak.log

Starts the gateway itself, on loopback, on a folder of its own (`--dir` keeps it), and plays to it what a show does:
gifts by Zipf's law with combos, batches and retries, gifts for later, drops with claims, holds, confirmations and
cancellations. A group claims and acknowledges, a webhook is received, watchers of both transports come, go and resume.
Every few minutes the gateway is killed (kill -9, or each fourth time SIGTERM) and started again.

Each minute is a line of the CSV: memory, descriptors, threads, the folder's size, processor time, latency of POST.
Whatever should not be is a line of the log that begins with FAIL. At the end: each acknowledged id is sent again and
must be known; the group and the webhook must have had every gift, in order; stock must add up to what buyers were told;
what watchers have must be the list. Exit code 1 if anything failed.

Needs Linux (/proc) and nothing but Python's library. It takes about a twentieth of a core: it measures what grows, not
what fits.
"""
import argparse
import asyncio
import base64
import csv
import functools
import hashlib
import hmac
import json
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import urllib.request

FEEDS = ["main", "side", "late"]
SECRET = base64.b64encode(b"soak" * 6).decode()
NAMES = ["Ada", "Björn", "小明", "Zoë", "O'Neil & Søn", "مريم", "<b>Max</b>", "Žofie"]


class Closed(Exception):
    """The gateway went away."""


class Log:
    def __init__(self, path):
        self.file = open(path, "w", buffering=1) if path else sys.stdout
        self.failures = 0

    def say(self, text):
        print(time.strftime("%H:%M:%S"), text, file=self.file)
        if self.file is not sys.stdout:
            print(time.strftime("%H:%M:%S"), text, flush=True)

    def fail(self, text):
        self.failures += 1
        if self.failures <= 200:
            self.say("FAIL " + text)


class Http:
    """One connection to the gateway that is opened again when it breaks."""

    def __init__(self, soak):
        self.soak, self.reader, self.writer = soak, None, None

    async def ask(self, method, path, body=None, patience=40):
        """Status and JSON of one request. Raises Closed when it was not answered."""
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n"
        head += "Content-Type: application/json\r\n\r\n" if data else "\r\n"
        try:
            async with asyncio.timeout(patience):
                if self.writer is None:
                    self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.soak.port)
                self.writer.write(head.encode() + data)
                head = await self.reader.readuntil(b"\r\n\r\n")
                length = [int(l[15:]) for l in head.lower().split(b"\r\n") if l.startswith(b"content-length:")]
                payload = await self.reader.readexactly(length[0]) if length else b""
                return int(head.split(None, 2)[1]), json.loads(payload) if payload else None
        except TimeoutError:
            self.close()
            self.soak.log.fail(f"{method} {path} was not answered within {patience} s")
            raise Closed from None
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            raise Closed from None

    async def insist(self, method, path, body=None):
        """Until it is answered with something else than 503: what a producer with a retry does."""
        while True:
            try:
                status, said = await self.ask(method, path, body)
                if status != 503:
                    return status, said
                self.soak.count["unavailable"] += 1
            except Closed:
                self.soak.count["broken"] += 1
            await asyncio.sleep(0.3)

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


class Watcher:
    """Folds a feed strictly: a hole, a repeat or a change of epoch is a failure."""

    def __init__(self, soak, feed, sse):
        self.soak, self.feed, self.sse = soak, feed, sse
        self.epoch = self.seq = self.rows = self.capacity = None
        self.log = soak.log

    def fold(self, frame):
        kind = frame["type"]
        if kind == "snapshot":
            if self.epoch not in (None, "0", frame["epoch"]):
                self.log.fail(f"{self.feed}: a watcher at {self.epoch}:{self.seq} was told epoch {frame['epoch']}")
            elif self.seq is not None and frame["seq"] < self.seq:
                self.log.fail(f"{self.feed}: a watcher at {self.seq} got a snapshot of {frame['seq']}")
            self.soak.count["snapshots"] += 1
            self.epoch, self.seq, self.capacity = frame["epoch"], frame["seq"], frame["capacity"]
            self.rows = frame["rows"]
        elif kind == "resumed":
            self.soak.count["resumes"] += 1
            if (frame["epoch"], frame["seq"]) != (self.epoch, self.seq):
                self.log.fail(f"{self.feed}: resumed at {frame}, not at {self.epoch}:{self.seq}")
        elif kind == "delta":
            for op in frame["ops"]:
                if op["seq"] != self.seq + 1:
                    self.log.fail(f"{self.feed}: {op['seq']} follows {self.seq}")
                self.seq = op["seq"]
                if op["op"] == "add":
                    self.rows = [op["row"], *self.rows][: self.capacity]
                elif op["op"] == "update":
                    self.rows = [op["row"] if row["row"] == op["row"]["row"] else row for row in self.rows]
                elif op["op"] == "remove":
                    self.rows = [row for row in self.rows if row["row"] != op["row"]]
            if frame["seq"] != self.seq:
                self.log.fail(f"{self.feed}: a delta says {frame['seq']} and ends at {self.seq}")
        elif kind == "keepalive" and frame["seq"] != self.seq:
            self.log.fail(f"{self.feed}: a keepalive says {frame['seq']} to a watcher at {self.seq}")

    async def session(self, stay):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.soak.port, limit=1 << 20)
        since = "" if self.seq is None else f"?since={self.epoch}:{self.seq}"
        path = f"/v1/feeds/{self.feed}/" + ("sse" if self.sse else "ws") + since
        more = "Accept: text/event-stream\r\n" if self.sse else (
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n"
        )
        try:
            async with asyncio.timeout(stay):
                writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                if head.split(None, 2)[1] not in (b"101", b"200"):
                    await asyncio.sleep(0.5)
                    return
                self.line = b""
                while await (self.events(reader) if self.sse else self.message(reader, writer)):
                    pass
        except TimeoutError:
            pass
        finally:
            writer.close()

    async def events(self, reader):
        """One chunk of the answer: it ends anywhere in a line."""
        size = int(await reader.readline() or b"0", 16)
        *lines, self.line = (self.line + await reader.readexactly(size)).split(b"\n")
        await reader.readexactly(2 if size else 0)
        for line in lines:
            if line.startswith(b"data:"):
                self.fold(json.loads(line[5:]))
        return size != 0

    async def message(self, reader, writer):
        opening, size = await reader.readexactly(2)
        if size == 126:
            (size,) = struct.unpack("!H", await reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await reader.readexactly(8))
        payload = await reader.readexactly(size)
        if opening & 15 == 1:
            self.fold(json.loads(payload))
        elif opening & 15 == 9:
            writer.write(b"\x8a" + bytes([0x80 | size]) + b"\0\0\0\0" + payload)
        return opening & 15 != 8

    async def run(self):
        while not self.soak.ending:
            try:
                await self.session(random.expovariate(1 / 60) + 1)
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.2 + random.random())
            self.soak.count["reconnects"] += 1


class Reader:
    """What one reader of the ledger had of one feed: each entry once, in the order of the ledger."""

    def __init__(self, log, name):
        self.log, self.name = log, name
        self.ids, self.entries, self.repeats = {}, {}, 0

    def take(self, feed, entry):
        cursor = int(entry["cursor"])
        if (feed, cursor) in self.entries:
            self.repeats += 1
            return
        self.entries[feed, cursor] = entry.get("seq")
        id = (feed, entry["status"] == "sold", entry["gift"]["id"])
        if id in self.ids:
            self.log.fail(f"{self.name}: {id} is in the ledger twice, at {self.ids[id][0]} and {cursor}")
        self.ids[id] = (cursor, entry["at"])

    def judge(self):
        """No cursor is missing between the first and the last of a feed, and changes are in order."""
        for feed in FEEDS:
            cursors = sorted(cursor for name, cursor in self.entries if name == feed)
            if not cursors:
                continue
            missing = cursors[-1] - cursors[0] + 1 - len(cursors)
            if missing:
                self.log.fail(f"{self.name}: {missing} entries of {feed} are missing")
            seqs = [seq for seq in (self.entries[feed, cursor] for cursor in cursors) if seq is not None]
            if seqs != sorted(seqs):
                self.log.fail(f"{self.name}: {feed}: changes are not in order in the ledger")


class Soak:
    def __init__(self, args):
        self.args = args
        self.log = Log(args.log)
        self.dir = args.dir or tempfile.mkdtemp(prefix="tipcast-soak-")
        self.data = os.path.join(self.dir, "data")
        os.makedirs(self.dir, exist_ok=True)
        self.out = open(os.path.join(self.dir, "gateway.log"), "a")
        self.port, self.process, self.down_since = 0, None, None
        self.downs = []
        self.ending = self.stopping = False
        self.count = dict.fromkeys(
            ["posts", "unavailable", "broken", "snapshots", "resumes", "reconnects", "kills", "claims", "deliveries",
             "refused_deliveries"], 0)
        self.took = []
        # (feed, id) -> (when it was answered, what was sent, what was answered)
        self.acked, self.scheduled = {}, {}
        self.sold, self.held = {}, {}
        self.group, self.hook = Reader(self.log, "group"), Reader(self.log, "webhook")
        self.last_hook = {}
        self.watchers = [Watcher(self, FEEDS[n % 3], n % 4 == 3) for n in range(args.watchers)]
        self.dice = random.Random(args.seed)

    # The gateway.

    async def start(self):
        begun = time.time()
        env = {**os.environ, "TIPCAST_WEBHOOKS__ALLOW_PRIVATE": "true", "TIPCAST_REPORTS__LEDGER_MAX": "2000",
               "TIPCAST_LOG__LEVEL": "warn"}
        args = ["--listen", f"127.0.0.1:{self.port}", "--data-dir", self.data]
        self.process = await asyncio.create_subprocess_exec(
            os.path.abspath(self.args.binary), *args, stdout=asyncio.subprocess.PIPE, stderr=self.out, env=env)
        line = await asyncio.wait_for(self.process.stdout.readline(), 60)
        if not line:
            raise SystemExit(f"the gateway did not start, see {self.out.name}")
        self.port = int(line.decode().strip().rsplit(":", 1)[1])
        if self.down_since:
            self.downs.append((self.down_since, time.time()))
        return time.time() - begun

    async def killer(self):
        while not self.stopping:
            await self.pause(self.args.kill_every * (0.5 + self.dice.random()))
            if self.stopping:
                return
            self.count["kills"] += 1
            gently = self.count["kills"] % 4 == 0
            self.down_since = time.time()
            self.process.send_signal(signal.SIGTERM if gently else signal.SIGKILL)
            code = await asyncio.wait_for(self.process.wait(), 60)
            if gently and code != 0:
                self.log.fail(f"SIGTERM ended with {code}")
            gone = time.time() - self.down_since
            took = await self.start()
            known = await self.probe(100)
            self.log.say(
                f"{'SIGTERM' if gently else 'kill -9'} no {self.count['kills']}: gone after {gone:.2f} s, listening "
                f"{took:.2f} s later, {known} of the newest ids asked for again")

    async def probe(self, many):
        """The newest acknowledged ids are known: sends them again."""
        http, now = Http(self), time.time()
        newest = [(key, what) for key, what in self.acked.items() if what][-many:]
        for key, what in newest:
            await self.again(http, key, what, now)
        http.close()
        return len(newest)

    async def again(self, http, key, what, now):
        at, sent, first = what
        # An id that is forgotten would be a new gift, and rightly so.
        if time.time() - at > self.args.window - 60:
            return False
        status, said = await http.insist("POST", f"/v1/feeds/{key[0]}/gifts", sent)
        if time.time() - at > self.args.window - 5:
            return False
        if first["status"] == "scheduled" and said.get("status") != "scheduled":
            # It was shown meanwhile, and its answer is that now.
            first = {**said, "id": first["id"]}
        if (status, said) != (200 if first["status"] != "scheduled" else status, {**first, "duplicate": True}):
            self.log.fail(f"{key} of {now - at:.1f} s ago: {first} became {status} {said}")
        return True

    async def keep(self, what, run):
        """A defect of this script is a failure too, and does not end the run."""
        while True:
            try:
                return await run()
            except Exception:
                self.log.fail(f"{what}: {traceback.format_exc()}")
                await asyncio.sleep(1)

    async def pause(self, seconds):
        until = time.time() + seconds
        while time.time() < until and not self.stopping:
            await asyncio.sleep(min(1, until - time.time()))

    # Who gives.

    async def producer(self, n):
        http, dice, made = Http(self), random.Random(self.args.seed * 1000 + n), 0
        combo = None
        while not self.stopping:
            await asyncio.sleep(dice.expovariate(self.args.rate / self.args.producers))
            made += 1
            feed = FEEDS[0] if dice.random() < 0.6 else FEEDS[1]
            user = int(dice.paretovariate(1.1)) % 500
            gift = {
                "id": f"p{n}-{made}",
                "user": {"id": f"u{user}", "name": NAMES[user % len(NAMES)]},
                "gift": {"id": f"g{int(dice.paretovariate(1.3)) % 12}", "name": "Rose"},
                "count": dice.randint(1, 5),
            }
            if dice.random() < 0.5:
                gift["value"] = {"amount": dice.randint(1, 9_999), "currency": dice.choice(["EUR", "JPY", "coins"])}
            if dice.random() < 0.2:
                gift["message"] = "Well played! " * dice.randint(1, 8)
            what = dice.random()
            if what < 0.02:
                feed = FEEDS[2]
                gift["delay_ms"] = dice.choice([500, 2_000, 10_000, 60_000])
            elif what < 0.15:
                if combo is None or combo["count"] > 20:
                    combo = {"id": f"c{n}-{made}", "count": 0}
                    combo_of = {key: gift[key] for key in ("user", "gift")}
                combo["count"] += dice.randint(1, 3)
                gift.update(combo_of, combo=dict(combo), count=1)
                gift.pop("value", None)
            elif what < 0.18:
                await self.batch(http, dice, feed, gift)
                continue
            await self.give(http, feed, gift)
            if dice.random() < 0.05 and (feed, gift["id"]) in self.acked:
                await self.again(http, (feed, gift["id"]), self.acked[feed, gift["id"]], time.time())

    async def give(self, http, feed, gift):
        tries = 0
        while True:
            tries += 1
            begun = time.perf_counter()
            try:
                status, said = await http.ask("POST", f"/v1/feeds/{feed}/gifts", gift)
            except Closed:
                self.count["broken"] += 1
                await asyncio.sleep(0.3)
                continue
            if status == 503:
                self.count["unavailable"] += 1
                await asyncio.sleep(0.3)
                continue
            break
        self.took.append((time.perf_counter() - begun) * 1e3)
        self.note(feed, gift, status, said, tries)

    def note(self, feed, gift, status, said, tries=1):
        self.count["posts"] += 1
        if status not in (200, 201, 202) or (said.pop("duplicate", False) and tries == 1):
            self.log.fail(f"{feed} {gift} was answered {status} {said}")
            return
        self.acked[feed, gift["id"]] = (time.time(), gift, said)
        if said["status"] == "scheduled":
            self.scheduled[feed, gift["id"]] = said["deliver_at"]

    async def batch(self, http, dice, feed, gift):
        gifts = [{**gift, "id": f"{gift['id']}-{n}", "count": n + 1} for n in range(dice.randint(2, 12))]
        status, said = await http.insist("POST", f"/v1/feeds/{feed}/gifts/batch", {"gifts": gifts})
        if status != 200:
            self.log.fail(f"a batch was answered {status} {said}")
            return
        for one, result in zip(gifts, said["results"]):
            # An attempt that was cut may have been done: then these are duplicates.
            result.pop("index"), result.pop("duplicate", None)
            self.note(feed, one, 200, result)

    async def buyer(self):
        """Drops, one after the other: some buy, some hold and pay, some hold and leave, some cancel."""
        http, dice, made = Http(self), random.Random(self.args.seed + 7), 0
        while not self.stopping:
            made += 1
            drop, total = f"drop-{made}", dice.randint(20, 60)
            path = f"/v1/feeds/main/drops/{drop}"
            await http.insist("PUT", path, {
                "gift": {"id": "crown", "name": "Crown"}, "total": total, "per_user": 2, "hold_ttl_ms": 20_000})
            self.sold[drop], self.held[drop] = 0, total
            for n in range(120):
                await self.pause(dice.expovariate(1))
                if self.stopping:
                    break
                count = dice.randint(1, 2)
                claim = {"id": f"{drop}-{n}", "user": {"id": f"b{n}", "name": "Buyer"}, "count": count,
                         "pay": dice.choice(["now", "later"])}
                status, said = await http.insist("POST", f"{path}/claims", claim)
                self.count["claims"] += 1
                if status == 409:
                    continue
                if status not in (200, 201):
                    self.log.fail(f"{claim} was answered {status} {said}")
                elif said["status"] == "sold":
                    self.sale(drop, claim["id"], count)
                else:
                    await self.end_hold(http, dice, drop, said["hold"], claim["id"], count)
                stock = (await http.insist("GET", path))[1]
                if stock["free"] + stock["held"] + stock["sold"] != total:
                    self.log.fail(f"stock does not add up: {stock}")

    def sale(self, drop, claim, count):
        self.sold[drop] += count
        self.acked["main", "sale", claim] = None

    async def end_hold(self, http, dice, drop, hold, claim, count):
        what = dice.random()
        path = f"/v1/feeds/main/holds/{hold}"
        if what < 0.5:
            status, said = await http.insist("POST", path + "/confirm")
            if status == 200:
                self.sale(drop, claim, count)
            elif status != 409:
                self.log.fail(f"confirming was answered {status} {said}")
        elif what < 0.7:
            status, said = await http.insist("DELETE", path)
            if status not in (200, 409):
                self.log.fail(f"cancelling was answered {status} {said}")

    # Who reads.

    async def reports(self, feed):
        http, path = Http(self), f"/v1/feeds/{feed}/groups/soak"
        while not self.ending:
            ask = {"consumer": "soak", "max": 128, "wait_ms": 4_000, "lease_ms": 5_000}
            status, said = await http.insist("POST", path + "/claim", ask)
            if status != 200:
                self.log.fail(f"a claim of {feed} was answered {status} {said}")
                await asyncio.sleep(1)
                continue
            for entry in said["entries"]:
                self.group.take(feed, entry)
            cursors = [entry["cursor"] for entry in said["entries"]]
            if cursors:
                await http.insist("POST", path + "/ack", {"cursors": cursors})

    async def receiver(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                body = await reader.readexactly(int(lines["content-length"]))
                status = "204 No Content" if self.delivered(head, body) else "500 Not Now"
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    def delivered(self, head, body):
        lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        lines = {name.lower(): value for name, value in lines.items()}
        signed = f"{lines['webhook-id']}.{lines['webhook-timestamp']}.".encode() + body
        mac = base64.b64encode(hmac.new(base64.b64decode(SECRET), signed, hashlib.sha256).digest()).decode()
        if f"v1,{mac}" not in lines["webhook-signature"].split():
            self.log.fail("a delivery is signed wrongly")
        if not self.stopping and self.dice.random() < 0.03:
            self.count["refused_deliveries"] += 1
            return False
        self.count["deliveries"] += 1
        said = json.loads(body)
        for entry in said["entries"]:
            cursor, last = int(entry["cursor"]), self.last_hook.get(said["feed"], 0)
            if cursor > last + 1 and last:
                self.log.fail(f"the webhook of {said['feed']} got {cursor} after {last}")
            self.last_hook[said["feed"]] = max(cursor, last)
            self.hook.take(said["feed"], entry)
        return True

    # What is written down.

    def process_figures(self):
        pid, figures = self.process.pid, {}
        try:
            for line in open(f"/proc/{pid}/status"):
                name, value = line.split(":", 1)
                if name in ("VmRSS", "RssAnon", "Threads"):
                    figures[name] = int(value.split()[0])
            figures["fds"] = len(os.listdir(f"/proc/{pid}/fd"))
            fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
            figures["cpu"] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            pass
        return figures

    def commits(self):
        """How many commits took at most this number of seconds, by /metrics."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return {}
        pairs = (line[len('tipcast_commit_seconds_bucket{le="'):].split('"} ') for line in lines
                 if line.startswith("tipcast_commit_seconds_bucket{le="))
        return {float(most): int(count) for most, count in pairs}

    async def recorder(self):
        columns = ["time", "minute", "rss_kb", "anon_kb", "fds", "threads", "folder_kb", "wal_kb", "cpu_percent",
                   "posts", "p50_ms", "p99_ms", "max_ms", "commit_max_ms", "unavailable", "broken", "kills", "watchers",
                   "resumes", "snapshots", "reports", "deliveries", "claims", "group_lag", "ready", "failures"]
        table = csv.writer(open(self.args.csv, "w", buffering=1))
        table.writerow(columns)
        http, minute, cpu, last = Http(self), 0, (None, 0.0), dict(self.count)
        commits = {}
        while not self.stopping:
            await self.pause(60)
            minute += 1
            figures = self.process_figures()
            took, self.took = sorted(self.took), []
            at = lambda share: f"{took[min(int(len(took) * share), len(took) - 1)]:.2f}" if took else ""
            sizes = {}
            for name in os.listdir(self.data):
                try:
                    sizes[name] = os.path.getsize(os.path.join(self.data, name)) // 1024
                except OSError:
                    pass
            used = figures.get("cpu", 0.0) - (cpu[1] if cpu[0] == self.process.pid else 0.0)
            cpu = (self.process.pid, figures.get("cpu", 0.0))
            # The bucket of the longest commit of this minute: the first one behind which nothing was added.
            now, most = await asyncio.to_thread(self.commits), ""
            if now:
                before = commits if commits and max(commits.values()) <= max(now.values()) else {}
                more = {le: count - before.get(le, 0) for le, count in sorted(now.items())}
                most = next((le * 1e3 for le, count in more.items() if count == max(more.values())), "")
                commits = now
            lag = sum([(await http.insist("GET", f"/v1/feeds/{feed}/groups/soak"))[1].get("lag", 0) for feed in FEEDS])
            try:
                ready = (await http.ask("GET", "/readyz"))[0]
            except Closed:
                ready = 0
            more = {name: self.count[name] - last[name] for name in self.count}
            last = dict(self.count)
            table.writerow([
                time.strftime("%H:%M:%S"), minute, figures.get("VmRSS"), figures.get("RssAnon"), figures.get("fds"),
                figures.get("Threads"), sum(sizes.values()),
                sum(size for name, size in sizes.items() if name.endswith("-wal")), f"{used / 0.6:.1f}", more["posts"],
                at(0.5), at(0.99), at(1), most, more["unavailable"], more["broken"], self.count["kills"],
                sum(watcher.seq is not None for watcher in self.watchers), more["resumes"], more["snapshots"],
                len(self.group.entries), more["deliveries"], more["claims"], lag, ready, self.log.failures])
            forget = time.time() - self.args.window
            for key, what in list(self.acked.items()):
                if what and what[0] < forget:
                    self.acked[key] = None

    # The end.

    async def judge(self):
        http = Http(self)
        log, patience = self.log, time.time() + 150
        want = {(key[0], False, key[1]) for key in self.acked if len(key) == 2}
        want |= {("main", True, key[2]) for key in self.acked if len(key) == 3}
        while time.time() < patience and not (want <= self.group.ids.keys() and want <= self.hook.ids.keys()):
            await asyncio.sleep(1)
        for reader in (self.group, self.hook):
            missing = want - reader.ids.keys()
            if missing:
                log.fail(f"{reader.name}: {len(missing)} of {len(want)} never came, such as {sorted(missing)[:3]}")
            reader.judge()
            log.say(f"{reader.name}: {len(reader.entries)} entries, {reader.repeats} more than once; "
                    f"{len(want) - len(missing)} of {len(want)} that were acknowledged")
        again = 0
        for key, what in list(self.acked.items()):
            if what and await self.again(http, key, what, time.time()):
                again += 1
        log.say(f"{again} acknowledged ids within their window were sent again")
        late = []
        for key, deliver_at in self.scheduled.items():
            shown = self.group.ids.get((key[0], False, key[1]))
            if shown is None:
                continue
            lag = seconds(shown[1]) - seconds(deliver_at)
            if lag < 0:
                log.fail(f"{key} was shown {-lag * 1e3:.0f} ms early")
            due = seconds(deliver_at)
            if not any(down - 1 <= due <= up + 3 for down, up in self.downs):
                late.append(lag * 1e3)
        late.sort()
        if late:
            log.say(f"scheduled: {len(late)} while it ran, none early; late by {late[len(late) // 2]:.0f} ms (p50), "
                    f"{late[int(len(late) * 0.99)]:.0f} ms (p99), {late[-1]:.0f} ms (most)")
        for drop, sold in self.sold.items():
            stock = (await http.insist("GET", f"/v1/feeds/main/drops/{drop}"))[1]
            if stock["sold"] != sold or stock["held"] or stock["free"] + sold != stock["total"]:
                log.fail(f"{drop}: buyers were told of {sold}, and it says {stock}")
        log.say(f"{len(self.sold)} drops, {sum(self.sold.values())} units sold: stock is what buyers were told")
        for watcher in self.watchers:
            # One that just reconnects, and rows that end by their ttl, take a moment.
            for tries in range(60):
                now = (await http.insist("GET", f"/v1/feeds/{watcher.feed}"))[1]
                if (watcher.epoch, watcher.seq, watcher.rows) == (now["epoch"], now["seq"], now["rows"]):
                    break
                await asyncio.sleep(0.5)
            else:
                log.fail(f"{watcher.feed}: a watcher at {watcher.seq} has another list than the server at {now['seq']}")
        log.say(f"{len(self.watchers)} watchers compared with the lists; {self.count}")

    async def run(self):
        took = await self.start()
        self.log.say(f"pid {self.process.pid} on port {self.port} in {self.dir}, after {took:.2f} s")
        hooks = await asyncio.start_server(self.receiver, "127.0.0.1", 0, limit=1 << 22)
        url = f"http://127.0.0.1:{hooks.sockets[0].getsockname()[1]}/hook"
        http = Http(self)
        for feed in FEEDS:
            window_ms, ttl_ms = self.args.window * 1000, 120_000 if feed == "side" else 0
            policy = {"idempotency_window_ms": window_ms, "row_ttl_ms": ttl_ms}
            await http.insist("PUT", f"/v1/feeds/{feed}/policy", policy)
            status, said = await http.insist(
                "PUT", f"/v1/feeds/{feed}/webhooks/soak", {"url": url, "secret": "whsec_" + SECRET})
            if status != 201:
                raise SystemExit(f"the webhook was refused: {said}")
        def begin(what, runs):
            return [asyncio.create_task(self.keep(what, run)) for run in runs]

        readers = begin("reports", [functools.partial(self.reports, feed) for feed in FEEDS])
        readers += begin("watcher", [watcher.run for watcher in self.watchers])
        writers = begin("producer", [functools.partial(self.producer, n) for n in range(self.args.producers)])
        writers += begin("buyer", [self.buyer]) + begin("killer", [self.killer]) + begin("recorder", [self.recorder])
        await self.pause(self.args.minutes * 60)
        self.stopping = True
        await asyncio.wait_for(asyncio.gather(*writers), 120)
        self.log.say(f"no more gifts; {len(self.acked)} acknowledged, {self.count['kills']} kills")
        await self.judge()
        self.ending = True
        for task in readers:
            task.cancel()
        self.process.terminate()
        await asyncio.wait_for(self.process.wait(), 30)
        self.log.say(f"{'FAILED' if self.log.failures else 'passed'}: {self.log.failures} failures")


def seconds(text):
    stamp, millis = text.rstrip("Z").split(".")
    return time.mktime(time.strptime(stamp + " UTC", "%Y-%m-%dT%H:%M:%S %Z")) - time.timezone + int(millis) / 1e3


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--rate", type=float, default=12, help="gifts a second")
    parser.add_argument("--producers", type=int, default=4)
    parser.add_argument("--watchers", type=int, default=12)
    parser.add_argument("--kill-every", type=float, default=240, help="seconds, on average")
    parser.add_argument("--window", type=int, default=600, help="seconds for which ids are remembered, 60 or more")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", default="soak.csv")
    parser.add_argument("--log", default="")
    parser.add_argument("--dir", default="", help="kept; default: a folder that is removed when all is well")
    args = parser.parse_args()
    soak = Soak(args)
    try:
        asyncio.run(soak.run())
    finally:
        if soak.process and soak.process.returncode is None:
            try:
                os.kill(soak.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    if not args.dir and not soak.log.failures:
        shutil.rmtree(soak.dir, ignore_errors=True)
    sys.exit(1 if soak.log.failures else 0)
