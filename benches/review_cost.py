#!/usr/bin/env python3
"""What review costs a gift: microseconds of Redis by its own `INFO commandstats`, and time for each gift of the embedded
engine, with review off, with review on where nothing has to wait, and for gifts that wait and are approved one by one.

    python3 benches/review_cost.py path/to/tipcast [--gifts 4000]

Starts a redis-server and gateways of its own on free ports, and stops them.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from totals_cost import Gateway, free_port, gift, stats  # noqa: E402

USERS = 200
OFF = {"review": "off", "dedup": "off"}
MESSAGES = {"review": "messages", "review_timeout_ms": 3_600_000, "dedup": "off"}
ALL = {**MESSAGES, "review": "all"}


def post(gateway, path, gifts):
    status, said = gateway.call("POST", f"{path}/gifts/batch", {"gifts": gifts})
    assert status == 200 and said["rejected"] == 0, said
    return said


def approve(gateway, path, gifts):
    for one in gifts:
        status, said = gateway.call("POST", f"{path}/review/{one['id']}", {"action": "approve"})
        assert status == 200, said


def each(redis, count, work):
    """Microseconds for each of `count`: of Redis' scripts where there is one, else of time."""
    before, began = stats(redis) if redis else None, time.time()
    work()
    return (stats(redis)[1] - before[1]) / count if redis else (time.time() - began) / count * 1e6


def measure(gateway, where, count, batch, redis=None):
    def load(path, first):
        for at in range(first, first + count, batch):
            post(gateway, path, [gift(n, USERS) for n in range(at, at + batch)])

    off, on, waits = (f"/v1/feeds/{name}-{batch}" for name in ("off", "on", "waits"))
    for path, policy in ((off, OFF), (on, MESSAGES), (waits, ALL)):
        status, said = gateway.call("PUT", f"{path}/policy", policy)
        assert status == 200, said
    # Every name is approved once: from then on gifts without words pass.
    names = [{**gift(n, USERS), "id": f"name{n}"} for n in range(USERS)]
    for at in range(0, USERS, 50):
        post(gateway, on, names[at : at + 50])
    approve(gateway, on, names)
    # Turn by turn, so that what else the machine does is shared out.
    costs = [[], []]
    for turn in range(4):
        for cost, path in zip(costs, (off, on)):
            cost.append(each(redis, count, lambda: load(path, turn * count)))
    plain, passes = (min(cost) for cost in costs)
    held = [{**gift(n, USERS), "message": "hello"} for n in range(500)]

    def hold_and_approve():
        for at in range(0, len(held), batch):
            post(gateway, waits, held[at : at + batch])
        approve(gateway, waits, held)

    whole = each(redis, len(held), hold_and_approve)
    print(f"{where}, {batch} a call: {plain:.1f} us a gift off, {passes:.1f} where review lets it pass ({passes / plain:.2f} x), "
          f"{whole:.0f} for one that waits and is approved", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("--gifts", type=int, default=4_000)
    wishes = arguments.parse_args()
    folder, port = tempfile.mkdtemp(), free_port()
    redis = subprocess.Popen(
        ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", folder], stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(0.5)
        for where, store in (("redis", port), ("embedded", None)):
            gateway = Gateway(wishes.binary, f"{folder}/{where}", store)
            for batch in (1, 50):
                measure(gateway, where, wishes.gifts // (4 if batch == 1 else 1), batch, store)
            gateway.stop()
    finally:
        redis.terminate()
        redis.wait(10)


if __name__ == "__main__":
    main()
