#!/usr/bin/env python3
"""What it takes to move a folder into a Redis and into a cluster, and that it is all there.

    benches/move.py [--binary target/release/tipcast] [--feeds 10000] [--gifts 100] [--kills 10]

Fills a folder through a gateway: so many feeds with so many gifts each, and in each tenth of them a group that has read half,
a webhook, a drop with a sale and a hold, a goal with totals, a scheduled gift, one that waits for a host, and a block. Moves it to
a Redis, to a cluster of three, and to a Redis again with the process killed so many times on the way, and tells how long each
took, with the memory of the process and of the servers. After each a gateway starts there: the last thousand gifts are sent again
and must be known, and the groups must go on with the very next entry. Exit code 1 if anything is not so.

All of it shares this machine. Needs redis-server and redis-cli. Nothing is left behind.
"""

import argparse
import base64
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from cluster import Cluster
from redis_ceiling import HERE, Gateway, Redis

SECRET = "whsec_" + base64.b64encode(b"move" * 6).decode()
WHO = {"id": "u1", "name": "Mia"}


def call(gateway, method, path, body=None):
    text = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{gateway.port}/v1/feeds/{path}", text,
                                     {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def gifts(feed, count):
    return [{"id": f"g{feed}-{n}", "user": {"id": f"u{feed}-{n}", "name": "Mia"}, "gift": {"id": "rose", "name": "Rose"},
             "value": {"amount": 100 + n, "currency": "EUR"}} for n in range(count)]


def fill(gateway, it):
    """What each group is to be handed next, by feed."""
    following = {}
    for feed in range(it.feeds):
        rich, name = feed % 10 == 0, f"f{feed}"
        if rich:
            call(gateway, "PATCH", f"{name}/policy", {"totals": ["session", "day"], "points": {"EUR": 1}})
            call(gateway, "PUT", f"{name}/goals/mic", {"title": "Mic", "period": "session", "by": "points", "target": 10**6})
            call(gateway, "PUT", f"{name}/webhooks/crm", {"url": "http://127.0.0.1:9/", "secret": SECRET})
            call(gateway, "POST", f"{name}/groups/game/claim", {"consumer": "a", "max": 1})
        for from_ in range(0, it.gifts, 128):
            said = call(gateway, "POST", f"{name}/gifts/batch", {"gifts": gifts(feed, it.gifts)[from_ : from_ + 128]})
            assert said["rejected"] == 0, said
        if rich:
            entries = call(gateway, "POST", f"{name}/groups/game/claim", {"consumer": "a", "max": it.gifts // 2})["entries"]
            call(gateway, "POST", f"{name}/groups/game/ack", {"cursors": [entry["cursor"] for entry in entries]})
            following[name] = int(entries[-1]["cursor"]) + 1
            call(gateway, "PUT", f"{name}/drops/r", {"gift": {"id": "r", "name": "R"}, "total": 5, "per_user": 5})
            for claim, pay in (("c1", "now"), ("c2", "later")):
                call(gateway, "POST", f"{name}/drops/r/claims", {"id": claim, "user": WHO, "pay": pay})
            call(gateway, "POST", f"{name}/gifts", {"id": "later", "user": WHO, "gift": {"id": "r", "name": "R"}, "delay_ms": 86_400_000})
            call(gateway, "PATCH", f"{name}/policy", {"review": "all", "review_timeout_ms": 3_600_000})
            call(gateway, "POST", f"{name}/gifts", {"id": "waits", "user": WHO, "gift": {"id": "r", "name": "R"}})
            call(gateway, "PUT", f"{name}/blocks/out", {})
    return following


def move(it, folder, url, more=(), kill_after=None):
    """Seconds, the process's seconds of CPU and greatest memory in MiB, its exit code, what it said."""
    command = [it.binary, "store", "move", "--data-dir", folder, "--to", url, *more]
    began = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        if kill_after is not None:
            time.sleep(kill_after)
            # Not by `process`, which would take the end that is waited for.
            os.kill(process.pid, signal.SIGKILL)
        _, status, usage = os.wait4(process.pid, 0)
        took = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode()
    return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode, text


def goes_on(it, url, following):
    """What is wrong with what a gateway finds there."""
    wrong = []
    gateway = Gateway(it.binary, "--redis", url)
    try:
        sent = 0
        for feed in range(it.feeds - 1, -1, -1):
            said = call(gateway, "POST", f"f{feed}/gifts/batch", {"gifts": gifts(feed, it.gifts)[-128:]})
            sent += len(said["results"])
            if said["duplicate"] != len(said["results"]):
                wrong.append(f"f{feed}: {said['duplicate']} of {len(said['results'])} gifts are known")
            if sent >= 1000:
                break
        for name in random.sample(sorted(following), min(100, len(following))):
            entries = call(gateway, "POST", f"{name}/groups/game/claim", {"consumer": "a", "max": 1})["entries"]
            if [int(entry["cursor"]) for entry in entries] != [following[name]]:
                wrong.append(f"{name}: its group goes on with {entries}, not {following[name]}")
            drop = call(gateway, "GET", f"{name}/drops/r")
            if (drop["free"], drop["held"], drop["sold"]) != (3, 1, 1):
                wrong.append(f"{name}: {drop}")
            points = call(gateway, "GET", f"{name}/totals")["totals"]["session"]["points"]
            if points != sum(100 + n for n in range(it.gifts)):
                wrong.append(f"{name}: {points} points")
            for gift, status in (("later", "scheduled"), ("waits", "in_review")):
                if call(gateway, "GET", f"{name}/gifts/{gift}")["status"] != status:
                    wrong.append(f"{name}: {gift} is not {status}")
    finally:
        gateway.stop()
    return wrong


def memory_of(servers):
    used = 0
    for server in servers:
        line = next(line for line in server.cli("info", "memory").splitlines() if line.startswith("used_memory:"))
        used += int(line.split(":")[1])
    return used / 2**20


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("--binary", default=os.path.join(HERE, "..", "target", "release", "tipcast"))
    parser.add_argument("--feeds", type=int, default=10_000)
    parser.add_argument("--gifts", type=int, default=100)
    parser.add_argument("--kills", type=int, default=10)
    it = parser.parse_args()
    it.binary = os.path.abspath(it.binary)
    # The webhooks' endpoints are nobody's, on this machine.
    os.environ["TIPCAST_WEBHOOKS__ALLOW_PRIVATE"] = "true"
    folder, failed, first = tempfile.mkdtemp(), False, None
    try:
        gateway = Gateway(it.binary, "--data-dir", folder)
        try:
            following = fill(gateway, it)
        finally:
            gateway.stop()
        size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)) / 2**20
        print(f"a folder of {size:.0f} MiB: {it.feeds} feeds, {it.feeds * it.gifts} ids", flush=True)
        for name in ("a Redis", "a cluster of three", f"a Redis, killed {it.kills} times"):
            cluster = Cluster(3) if "cluster" in name else None
            servers = cluster.nodes if cluster else [Redis()]
            url = cluster.url if cluster else f"redis://127.0.0.1:{servers[0].port}/"
            try:
                kills, more = 0, ()
                if "killed" in name:
                    # A part of what the first one took, so that each dies at another place, further on.
                    while kills < it.kills:
                        code = move(it, folder, url, more, random.uniform(0.1, 0.35) * first)[3]
                        kills += code < 0
                        state = servers[0].cli("get", "tc:{probe}:form").strip()
                        if state not in ("", "moving"):
                            print(f"  it was over after {kills} kills", flush=True)
                            servers[0].cli("flushall")
                        more = ("--resume",) if state == "moving" else ()
                took, cpu, most, code, said = move(it, folder, url, more)
                first = first or took
                print(f"{name}: {took:.1f} s, {cpu:.1f} s of CPU, {most:.0f} MiB; the servers have {memory_of(servers):.0f} MiB: "
                      f"{said.splitlines()[-1] if code else next(line for line in said.splitlines() if line.startswith('moved'))}",
                      flush=True)
                wrong = [said] if code else goes_on(it, url, following)
                failed |= bool(wrong)
                for line in wrong[:5]:
                    print("  FAIL", line, flush=True)
            finally:
                for server in servers:
                    server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
