#!/usr/bin/env python3
"""Kills a gateway on Redis, and Redis itself, again and again while gifts are posted and taken back, and compares totals and
leaders with a plain recount of the ledger, to the unit.

    python3 benches/totals_kills.py path/to/tipcast [--rounds 40] [--seed N]

Redis runs with `appendfsync always`, so what it acknowledged is there again. What was not answered is asked again with the
same id until it is. Starts its own redis-server and gateway on free ports, kills only these, and stops them.
"""

import argparse
import http.client
import json
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time

FEED = "/v1/feeds/kills"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Both:
    """The gateway and its Redis."""

    def __init__(self, binary):
        self.binary, self.folder = binary, tempfile.mkdtemp()
        self.ports = {"redis": free_port(), "gateway": free_port()}
        self.processes = {}
        self.start("redis")
        self.start("gateway")

    def start(self, what):
        if what == "redis":
            words = ["redis-server", "--port", str(self.ports["redis"]), "--appendonly", "yes", "--appendfsync", "always",
                     "--save", "", "--dir", self.folder]
        else:
            words = [self.binary, "--listen", f"127.0.0.1:{self.ports['gateway']}",
                     "--redis", f"redis://127.0.0.1:{self.ports['redis']}"]
        self.processes[what] = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self, what):
        self.processes[what].kill()
        self.processes[what].wait()
        self.start(what)

    def ask(self, method, path, body=None):
        """Until it is answered by other than 5xx."""
        for _ in range(1200):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.ports["gateway"], timeout=20)
                text = json.dumps(body) if body is not None else None
                connection.request(method, path, text, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                said = json.loads(answer.read() or b"null")
                connection.close()
                if answer.status < 500:
                    return answer.status, said
            except (OSError, http.client.HTTPException, ValueError):
                pass
            time.sleep(0.1)
        raise SystemExit(f"{method} {path} is not answered")

    def stop(self):
        for process in reversed(list(self.processes.values())):
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def entries_of(both):
    """The whole ledger, in order."""
    entries = []
    while True:
        status, said = both.ask("POST", f"{FEED}/groups/recount/claim", {"consumer": "r", "max": 1000, "wait_ms": 0, "lease_ms": 600000})
        assert status == 200, said
        if not said["entries"]:
            return entries
        entries += said["entries"]
        both.ask("POST", f"{FEED}/groups/recount/ack", {"cursors": [entry["cursor"] for entry in said["entries"]]})


def recount(entries):
    """Gifts, units, EUR, gifters; and the ranking by units."""
    gifts, scores, n = {}, {}, 0
    for entry in entries:
        n += 1
        gift = entry.get("gift", {})
        if entry["status"] == "goal":
            continue
        if entry["status"] == "retracted":
            gone = gifts.pop(gift["id"], None)
            sign = -1
        elif entry["status"] in ("accepted", "merged", "suppressed"):
            assert gift["id"] not in gifts, f"{gift['id']} counted twice"
            gone = gifts[gift["id"]] = (gift["user"]["id"], gift["count"], gift.get("value", {}).get("amount", 0))
            sign = 1
        else:
            continue
        if gone:
            score, _ = scores.get(gone[0], (0, 0))
            scores[gone[0]] = (score + sign * gone[1], n)
    sums = (len(gifts), sum(g[1] for g in gifts.values()), sum(g[2] for g in gifts.values()), len({g[0] for g in gifts.values()}))
    ranked = sorted(((-score, at, user) for user, (score, at) in scores.items() if score > 0))
    return sums, [(user, -score) for score, _, user in ranked]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("--rounds", type=int, default=40)
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    wishes = arguments.parse_args()
    print(f"seed {wishes.seed}")
    both, entries, dice = Both(wishes.binary), [], random.Random(wishes.seed)
    try:
        policy = {"totals": ["all", "session", "day", "week", "month"], "points": {"EUR": 3}}
        assert both.ask("PUT", f"{FEED}/policy", policy)[0] == 200
        assert both.ask("PUT", f"{FEED}/goals/far", {"title": "Far", "period": "all", "by": "units", "target": 500})[0] in (200, 201)
        posted = 0
        for number in range(wishes.rounds):
            victim = dice.choice(["gateway", "redis", "gateway and redis"])
            later = threading.Timer(dice.random() * 0.6, lambda: [both.kill(what) for what in victim.split(" and ")])
            later.start()
            for _ in range(dice.choice([10, 25, 60])):
                batch = []
                for _ in range(dice.choice([1, 1, 8])):
                    user = f"u{dice.randrange(40)}"
                    batch.append({
                        "id": f"g{posted}", "user": {"id": user, "name": user}, "gift": {"id": f"k{posted % 5}", "name": "K"},
                        "count": dice.randrange(1, 5), "value": {"amount": dice.randrange(0, 900), "currency": "EUR"},
                    })
                    posted += 1
                status, said = both.ask("POST", f"{FEED}/gifts/batch", {"gifts": batch})
                assert status == 200 and said["rejected"] == 0, said
                if dice.random() < 0.15:
                    assert both.ask("POST", f"{FEED}/gifts/g{dice.randrange(posted)}/retract")[0] == 200
            later.join()
            entries += entries_of(both)
            (gifts, units, euros, gifters), ranking = recount(entries)
            totals = both.ask("GET", f"{FEED}/totals")[1]["totals"]
            for period, view in totals.items():
                got = (view["gifts"], view["units"], view["values"][0]["amount"], view["gifters"], view["points"])
                assert got == (gifts, units, euros, gifters, 3 * euros), (number, victim, period, got, (gifts, units, euros, gifters))
            leaders = both.ask("GET", f"{FEED}/leaders?period=day&by=units&limit=100")[1]["leaders"]
            assert [(it["user"]["id"], it["score"]) for it in leaders] == ranking, (number, victim, leaders, ranking)
        reached = [entry for entry in entries if entry["status"] == "goal"]
        assert len(reached) == 1, f"the goal was told {len(reached)} times"
        print(f"{wishes.rounds} kills, {posted} gifts posted: totals of five periods and the ranking are those of the ledger after each; the goal once")
    finally:
        both.stop()


main()
