#!/usr/bin/env python3
"""Money credited from a ledger by a backend in each of Python (with an event loop and without), Go, Kotlin and Node (with the
library and without), while everything is killed.

    benches/ledger_soak/soak.py target/release/tipcast [--entries 100000] [--only python,python-async,go,kotlin,node,node-alone]

A producer gives, in combos and with messages, sells at a price, refunds in part, takes back by id and by row, reviews, blocks and
reaches goals, until the ledger has that many entries, and keeps its own book. The backends are those of credit.py and credit.mjs
(the libraries for Python and Node), clients/go/sqltest/credit, clients/jvm (Credit.kt), and the Node program of docs/CREDITING.md
as it is there. Everybody talks to the gateway through a proxy that loses answers, cuts them, and puts entries of a type that nobody
knows, and `ledger.lost`, into claims. The gateway and the backends are killed (kill -9) again and again.

At the end every account in every database must be the producer's to the unit, every database must know every entry of
the ledger once, and no entry may be dead. Exit code 1 otherwise.

Needs go, mvn, node (22.13 or newer), python3 with httpx, and what scripts/clients-check makes: target/clients-python, clients/js/dist.
"""

import argparse
import collections
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FEED = "/v1/feeds/soak"

# Of one sale, in cents.
PRICE = 1250


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def say(*what):
    print(time.strftime("%H:%M:%S"), *what, flush=True)


def wait_for(what, patience=60):
    deadline = time.monotonic() + patience
    while not what():
        if time.monotonic() > deadline:
            raise TimeoutError(what.__name__)
        time.sleep(0.05)


class Service:
    """A process that is started again whenever it was killed."""

    def __init__(self, name, command, env, log, cwd=None):
        self.name, self.command, self.env, self.cwd, self.log = name, command, env, cwd, open(log, "ab")
        self.kills = 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, env=self.env, cwd=self.cwd, stdout=self.log, stderr=self.log)

    def kill(self):
        if self.process.poll() is not None:
            say("FAIL", self.name, "ended by itself:", self.process.returncode)
        self.process.kill()
        self.process.wait()
        self.kills += 1

    def stop(self):
        self.process.kill()
        self.process.wait()


class Proxy(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, gateway):
        super().__init__(("127.0.0.1", 0), Through)
        self.gateway, self.calm = gateway, False
        self.counts = collections.Counter()
        self.injected = 9 * 10**15
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def inject(self, entries):
        """Entries that no backend knows, in front, between and behind."""
        with self.lock:
            for kind in random.choices(["gift.polished", "ledger.lost"], k=random.randint(1, 3)):
                self.injected += 1
                cursor = str(self.injected)
                entry = {"cursor": cursor, "event_id": f"soak/{cursor}", "type": kind, "feed": "soak",
                         "at": "2026-01-31T20:00:00.000Z", "attempt": 1}
                if kind == "ledger.lost":
                    entry["lost"] = {"from": cursor, "to": cursor, "count": 1}
                else:
                    entry |= {"delta": {"count": 1, "value": {"amount": 5, "currency": "EUR"}}, "shine": {"by": 3},
                              "gift": {"id": "polished", "user": {"id": "u1", "name": "Mia"}, "gift": {"id": "rose", "name": "R"}}}
                entries.insert(random.randint(0, len(entries)), entry)
                self.counts[kind] += 1


class Through(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    upstream = None

    def log_message(self, *_):
        pass

    def do(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        luck, counts = random.random() if not self.server.calm else 1, self.server.counts
        if luck < 0.005:
            counts["requests lost"] += 1
            return self.cut()
        try:
            if self.upstream is None:
                self.upstream = http.client.HTTPConnection("127.0.0.1", self.server.gateway, timeout=45)
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "content-length")}
            self.upstream.request(self.command, self.path, body or None, headers)
            answer = self.upstream.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            counts["without an answer"] += 1
            self.upstream = None
            return self.cut()
        if answer.status == 200 and self.path.endswith("/claim") and random.random() < 0.1:
            entries = json.loads(text)["entries"]
            if entries and not self.server.calm:
                self.server.inject(entries)
                text = json.dumps({"entries": entries}).encode()
        if luck < 0.015:
            counts["answers lost"] += 1
            return self.cut()
        if luck < 0.02:
            counts["answers cut"] += 1
            self.wfile.write(b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                             % (answer.status, len(text), text[: len(text) // 2]))
            return self.cut()
        self.send_response(answer.status)
        for name in ("Content-Type", "Retry-After"):
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def cut(self):
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do


class Producer:
    """Knows what each account must have, since it gave and took all of it."""

    def __init__(self, port):
        self.port, self.connection = port, None
        self.book = collections.Counter()
        # What is left of a gift: (user, currency, amount), its whole value first.
        self.left, self.whole = {}, {}
        # Which gifts made a row, and which can be looked for again.
        self.rows, self.recent = collections.OrderedDict(), collections.deque(maxlen=400)
        self.sold = 0
        self.answers = collections.Counter()
        self.n = 0

    def ask(self, method, path, body=None, fine=(200, 201, 202)):
        """The answer, however often it has to be asked for. Everything that is asked here may be repeated."""
        text = None if body is None else json.dumps(body)
        while True:
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=45)
                self.connection.request(method, path, text, {"Content-Type": "application/json"} if text else {})
                answer = self.connection.getresponse()
                data = answer.read()
            except (OSError, http.client.HTTPException):
                self.connection.close()
                self.connection = None
                time.sleep(0.05)
                continue
            if answer.status in (429, 503):
                time.sleep(min(float(answer.headers.get("Retry-After", 1)), 1))
                continue
            if answer.status not in fine:
                raise AssertionError(f"{method} {path} {text}: {answer.status} {data}")
            return answer.status, json.loads(data) if data else None

    def counts(self, id, user, currency, amount):
        self.book[user, currency] += amount
        self.left[id], self.whole[id] = (user, currency, amount), amount
        self.recent.append(id)

    def takes_back(self, id):
        user, currency, amount = self.left[id]
        self.book[user, currency] -= amount
        self.left[id] = (user, currency, 0)

    def shows(self, id, answer):
        self.answers[answer["status"]] += 1
        if "row" in answer and answer["status"] in ("accepted", "merged"):
            self.rows.setdefault(answer["row"], []).append(id)
            while len(self.rows) > 2000:
                self.rows.popitem(last=False)
        if answer["status"] == "in_review":
            action = random.choice(["approve", "mask", "deny", "deny"])
            status, decided = self.ask("POST", f"{FEED}/review/{id}", {"action": action}, fine=(200, 404, 409))
            self.answers[f"review {decided.get('status', status)}"] += 1
            if decided.get("row") and decided["status"] in ("accepted", "merged"):
                self.rows.setdefault(decided["row"], []).append(id)

    def give(self):
        self.n += 1
        id, user = f"g{self.n}", f"u{random.randint(1, 60)}"
        currency = random.choice(["EUR", "USD", "coins"])
        amount = random.randint(1, 5000)
        gift = {"id": id, "user": {"id": user, "name": f"Name {user}"}, "gift": {"id": random.choice("abc"), "name": "Gift"},
                "count": random.randint(1, 4), "value": {"amount": amount, "currency": currency}}
        if random.random() < 0.2:
            gift["message"] = f"hello {random.randint(1, 10**6)}"
        if random.random() < 0.01:
            gift["test"] = True
            return self.ask("POST", f"{FEED}/gifts", gift)
        self.counts(id, user, currency, amount)
        self.shows(id, self.ask("POST", f"{FEED}/gifts", gift)[1])

    def combo(self):
        """A run of frames, each with the sum so far; some come twice and some too late."""
        self.n += 1
        user, currency, amount = f"u{random.randint(1, 60)}", random.choice(["EUR", "coins"]), random.randint(1, 300)
        frames = [
            {"id": f"g{self.n}-{k}", "user": {"id": user, "name": user}, "gift": {"id": "combo", "name": "Combo"},
             "value": {"amount": k * amount, "currency": currency}, "combo": {"id": f"run{self.n}", "count": k}}
            for k in range(1, random.randint(3, 9))
        ]
        frames[-1]["combo"]["end"] = True
        self.book[user, currency] += len(frames) * amount
        if random.random() < 0.3 and len(frames) > 2:
            frames.insert(2, frames.pop(1))
        for frame in frames:
            _, answer = self.ask("POST", f"{FEED}/gifts", frame)
            self.answers[f"frame {answer['status']}"] += 1

    def batch(self):
        gifts, money = [], []
        for _ in range(random.randint(2, 40)):
            self.n += 1
            id, user, amount = f"g{self.n}", f"u{random.randint(1, 60)}", random.randint(1, 999)
            gifts.append({"id": id, "user": {"id": user, "name": user}, "gift": {"id": random.choice("ab"), "name": "Gift"},
                          "value": {"amount": amount, "currency": "EUR"}})
            money.append((id, user, amount))
        _, answer = self.ask("POST", f"{FEED}/gifts/batch", {"gifts": gifts})
        assert answer["rejected"] == 0, answer
        for (id, user, amount), result in zip(money, answer["results"]):
            self.counts(id, user, "EUR", amount)
            self.shows(id, result)

    def refund(self):
        if self.recent:
            id = random.choice(self.recent)
            user, currency, left = self.left[id]
            if left and self.whole[id] > 1:
                refunded = random.randint(self.whole[id] - left, self.whole[id])
                if refunded:
                    status, answer = self.ask("POST", f"{FEED}/gifts/{id}/refund", {"refunded": refunded}, fine=(200, 409))
                    self.answers[f"refund {answer.get('status', status)}"] += 1
                    if status == 200:
                        self.book[user, currency] -= left - (self.whole[id] - refunded)
                        self.left[id] = (user, currency, self.whole[id] - refunded)

    def retract(self):
        if self.recent:
            id = random.choice(self.recent)
            _, answer = self.ask("POST", f"{FEED}/gifts/{id}/retract", {"reason": "chargeback"})
            self.answers[f"retract {answer['status']}"] += 1
            if answer["status"] == "retracted":
                self.takes_back(id)

    def retract_row(self):
        """A row that is shown, with all that made it."""
        _, shown = self.ask("GET", FEED)
        known = [row["row"] for row in shown["rows"] if row["row"] in self.rows]
        if known:
            row = random.choice(known)
            ids = self.rows.pop(row)
            # An answer that was lost may have done it: the gifts say so themselves.
            self.ask("DELETE", f"{FEED}/rows/{row}", fine=(200, 404))
            for id in ids:
                _, story = self.ask("GET", f"{FEED}/gifts/{id}")
                if story["status"] == "retracted":
                    self.answers["by row"] += 1
                    self.takes_back(id)

    def sell(self):
        self.sold += 1
        user = f"u{self.sold % 60}"
        claim = {"id": f"sale{self.sold}", "user": {"id": user, "name": "Buyer"}, "pay": random.choice(["now", "later"])}
        status, answer = self.ask("POST", f"{FEED}/drops/rocket/claims", claim, fine=(201, 403, 409))
        self.answers[f"claim {answer.get('status', status)}"] += 1
        if answer.get("status") == "held":
            how = random.choice(["confirm", "cancel"])
            path = f"{FEED}/holds/{answer['hold']}"
            self.ask("POST", path + "/confirm", fine=(200,)) if how == "confirm" else self.ask("DELETE", path, fine=(200, 409))
        if answer.get("status") == "sold" or answer.get("status") == "held" and how == "confirm":
            self.book[user, "EUR"] += PRICE

    def changes_the_rules(self):
        self.ask("PATCH", f"{FEED}/policy", {"dedup": random.choice(["combine", "combine", "drop", "off"]),
                                            "review": random.choice(["off", "off", "messages"])})
        self.ask("PUT", f"{FEED}/goals/g{self.n % 8}", {"title": "More", "period": "session", "by": "points",
                                                        "target": random.randint(1, 10**6)})
        user = f"u{random.randint(1, 60)}"
        if random.random() < 0.5:
            self.ask("PUT", f"{FEED}/blocks/{user}", {})
            for _ in range(5):
                self.give()
            self.ask("DELETE", f"{FEED}/blocks/{user}", fine=(200, 404))


def node():
    """Node that has SQLite."""
    modules = ROOT / "target/node/node_modules"
    for path in [*modules.glob("node-linux-*/bin/node"), shutil.which("node")]:
        if path and subprocess.run([path, "-e", "require('node:sqlite')"], capture_output=True).returncode == 0:
            return str(path)
    sys.exit("there is no Node with node:sqlite; .ci/need-node installs one")


def backends(names, url, folder):
    """Command and environment of each, and its folder."""
    everybody = {}
    for name in names:
        home = folder / name
        home.mkdir()
        env = os.environ | {"TIPCAST_URL": url, "GROUP": name, "DATABASE": str(home / "game.db"), "TMPDIR": str(home)}
        if name in ("python", "python-async"):
            command = [sys.executable, str(HERE / "credit.py")]
            env |= {"PYTHONPATH": f"{ROOT}/clients/python/src:{ROOT}/target/clients-python", "PYTHONDONTWRITEBYTECODE": "1"}
        elif name == "go":
            subprocess.run(["go", "build", "-o", home / "credit", "./credit"], cwd=ROOT / "clients/go/sqltest", check=True)
            command = [str(home / "credit")]
        elif name == "kotlin":
            maven = ["mvn", "--batch-mode", "--quiet", "-f", str(ROOT / "clients/jvm/pom.xml"), "test-compile",
                     "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath", f"-Dmdep.outputFile={home}/path"]
            subprocess.run(maven, check=True)
            classes = f"{ROOT}/clients/jvm/target/classes:{ROOT}/clients/jvm/target/test-classes:{(home / 'path').read_text().strip()}"
            command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", classes, "tipcast.CreditKt"]
        elif name == "node":
            command = [node(), str(HERE / "credit.mjs")]
        else:
            guide = (ROOT / "docs/CREDITING.md").read_text()
            program = re.search(r"```js\n(.*?)```", guide[guide.index("\n## Node"):], re.S).group(1)
            program = program.replace("http://127.0.0.1:8080/v1/feeds/demo", url + FEED).replace("/groups/game/", f"/groups/{name}/")
            # So that what was held by a killed program comes back as soon as with the others.
            program = program.replace("wait_ms: 25_000", "wait_ms: 25_000, lease_ms: 5_000")
            (home / "credit.mjs").write_text(program)
            command = [node(), "credit.mjs"]
        everybody[name] = (command, env, home)
    return everybody


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--only", default="python,python-async,go,kotlin,node,node-alone")
    parser.add_argument("--redis", help="a gateway on this Redis (redis://…) instead of the embedded store")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", action="store_true", help="leave the folder behind")
    options = parser.parse_args()
    random.seed(options.seed)
    say("seed", options.seed)
    folder = pathlib.Path(tempfile.mkdtemp())
    names = options.only.split(",")
    gateway_port = free_port()
    proxy = Proxy(gateway_port)
    proxy_port = proxy.server_address[1]
    everybody = backends(names, f"http://127.0.0.1:{proxy_port}", folder)
    store = ["--redis-url", options.redis] if options.redis else ["--data-dir", str(folder / "data")]
    gateway = Service("gateway", [os.path.abspath(options.binary), "--listen", f"127.0.0.1:{gateway_port}", *store],
                      os.environ | {}, folder / "gateway.log")
    direct = Producer(gateway_port)
    direct.ask("GET", FEED, fine=(200, 404))
    producer = Producer(proxy_port)
    producer.ask("PATCH", f"{FEED}/policy", {"totals": ["session", "day"], "points": {"EUR": 1, "USD": 1}, "review_timeout_ms": 3_600_000})
    producer.ask("PUT", f"{FEED}/drops/rocket", {"gift": {"id": "rocket", "name": "Rocket"}, "total": 10**6, "per_user": 10**6,
                                                      "value": {"amount": PRICE, "currency": "EUR"}})
    services = {name: Service(name, command, env, folder / name / "log", home) for name, (command, env, home) in everybody.items()}
    failures = []
    over = threading.Event()

    def kills():
        while not over.wait(random.uniform(2, 12)):
            if random.random() < 0.35:
                gateway.kill()
                time.sleep(random.choice([0, 0.2, 3]))
                gateway.start()
            else:
                victim = random.choice(list(services.values()))
                victim.kill()
                time.sleep(random.choice([0, 0.1, 2]))
                victim.start()

    def group(name):
        status, answer = direct.ask("GET", f"{FEED}/groups/{name}", fine=(200, 404))
        return answer if status == 200 else {"lag": 0, "pending": 0, "dead": 0}

    killer = threading.Thread(target=kills)
    began, checked = time.monotonic(), 0
    try:
        wait_for(lambda: all(direct.ask("GET", f"{FEED}/groups/{name}", fine=(200, 404))[0] == 200 for name in names))
        killer.start()
        acts = [producer.give] * 40 + [producer.combo] * 6 + [producer.batch] * 2 + [producer.refund] * 8 + [producer.retract] * 3
        acts += [producer.retract_row] * 2 + [producer.sell] * 4
        entries = 0
        while entries < options.entries:
            for _ in range(100):
                random.choice(acts)()
            producer.changes_the_rules()
            groups = [group(name) for name in names]
            while max(it["lag"] for it in groups) > 4000:
                time.sleep(0.5)
                groups = [group(name) for name in names]
            last = direct.ask("GET", f"{FEED}/ledger/summary")[1]
            entries = int(last["last"]) - int(last["first"]) + 1 if not checked else int(last["last"]) - checked
            checked = checked or int(last["first"]) - 1
            if producer.n % 20 == 0:
                say(entries, "entries,", {name: it["lag"] + it["pending"] for name, it in zip(names, groups)})
        say(entries, "entries are written; the backends catch up")
        over.set()
        killer.join()
        proxy.calm = True
        wait_for(lambda: all(it["lag"] == it["pending"] == 0 for it in map(group, names)), 300)
        failures += [f"{name}: {group(name)['dead']} dead entries" for name in names if group(name)["dead"]]
        entries = int(direct.ask("GET", f"{FEED}/ledger/summary")[1]["last"]) - checked
    finally:
        over.set()
        for service in services.values():
            service.stop()
        gateway.stop()
    book = {account: amount for account, amount in producer.book.items() if amount}
    for name in names:
        with sqlite3.connect(folder / name / "game.db") as db:
            accounts = {(user, currency): amount for user, currency, amount in db.execute("SELECT * FROM accounts") if amount}
            table = "events" if name == "node-alone" else "tipcast_events"
            known, strange = (db.execute(f"SELECT count(*) FROM {table} WHERE event_id {how} 'soak/9%'").fetchone()[0]
                              for how in ("NOT LIKE", "LIKE"))
            types = {} if name == "node-alone" else dict(db.execute("SELECT * FROM types ORDER BY type"))
        wrong = {account: (accounts.get(account, 0), book.get(account, 0)) for account in accounts.keys() | book.keys()
                 if accounts.get(account, 0) != book.get(account, 0)}
        if wrong:
            failures.append(f"{name}: {len(wrong)} accounts differ (theirs, the producer's): {dict(list(wrong.items())[:5])}")
        if known != entries:
            failures.append(f"{name}: knows {known} of {entries} entries")
        say(f"{name}: {len(accounts)} accounts, {known} entries, {strange} strange ones, killed {services[name].kills} times", types)
    say(f"gateway killed {gateway.kills} times in {time.monotonic() - began:.0f} s;", dict(proxy.counts))
    say("answers:", dict(sorted(producer.answers.items())))
    for failure in failures:
        say("FAIL", failure)
    if options.keep or failures:
        say("left in", folder)
    else:
        shutil.rmtree(folder)
    say("every account is right, to the unit" if not failures else "NOT RIGHT")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
