#!/usr/bin/env python3
"""What gifts cost Redis, in instructions: figures that a loaded machine does not move.

    benches/redis_instructions.py [--binary target/release/tipcast] [--gifts 1920] [--only calls|counting]

Starts a Redis under valgrind's callgrind, which counts its instructions, and a gateway on it, both on free ports. One
gift, and one batch of 64, go through the gateway while MONITOR listens; these calls are then repeated, each gift with ids
of its own and the feed as it was before, and set beside benches/yardstick.lua, which writes as much and keeps no rule, and beside a script that does
nothing and is called with the same arguments. Then gifts go through the gateway in batches of 64, of 1 000 gifters and
of one, to a feed that counts nothing and to one that counts everything: all that Redis does until the last state was told.

The cost of the check of rights in front of each script is its own line.

Some fifty times as slow as Redis is, so what depends on time (how much is added up at once) is less than it would be.
Needs redis-server, redis-cli and valgrind. Nothing is left behind.
"""

import argparse
import glob
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time

import redis_ceiling as ceiling
import totals_cost as totals


class CountedRedis(ceiling.Redis):
    def __init__(self):
        self.port, self.folder = ceiling.free_port(), tempfile.mkdtemp()
        self.process = subprocess.Popen(
            ["valgrind", "--tool=callgrind", "-q", f"--callgrind-out-file={self.folder}/out", "redis-server",
             "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--hz", "1",
             "--dir", self.folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        ceiling.wait_for(lambda: self.cli("ping").strip() == "PONG")

    def instructions(self, what):
        """Of Redis while `what` runs."""
        control = ["callgrind_control"]
        subprocess.run([*control, "-z", str(self.pid)], capture_output=True, check=True)
        what()
        subprocess.run([*control, "-d", str(self.pid)], capture_output=True, check=True)
        newest = max(glob.glob(self.folder + "/out.*"), key=os.path.getmtime)
        with open(newest) as f:
            line = next(line for line in f if line.startswith(("summary:", "totals:")))
        return int(line.split()[1])

    def load(self, text):
        return self.cli("-x", "script", "load", input=text).strip()

    def repeat(self, call, times):
        """The call so often, eight at a time; every mark is another number."""
        mark = b"__rand_int__"
        with socket.create_connection(("127.0.0.1", self.port), timeout=120) as connection:
            for _ in range(times // 8):
                out = b""
                for _ in range(8):
                    words = [word.encode() for word in call]
                    words = [word.replace(mark, b"%012d" % random.randrange(10**12)) for word in words]
                    out += b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
                connection.sendall(out + b"PING\r\n")
                answer = b""
                while not answer.endswith(b"+PONG\r\n"):
                    answer += connection.recv(1 << 20)


def yardstick_call(sha):
    keys = ["list", "seq", "id:__rand_int__", "lock:__rand_int__", "hist", "ledger"]
    body = ceiling.json.dumps(ceiling.gift("__rand_int__"), separators=(",", ":"))
    return ["EVALSHA", sha, "6", *("{y}:" + key for key in keys), body, "{y}:live", "0123456789abcdef"]


def cost(redis, call, times):
    redis.repeat(call, times)
    return redis.instructions(lambda: redis.repeat(call, times)) / times


def without_rights(binary):
    """The script without the checks in front of it, which ask Redis for its user's rights."""
    text = subprocess.run([binary, "script", "publish"], capture_output=True, text=True, check=True).stdout
    return re.sub(r"do\nlocal can, key = redis\.acl_check_cmd.*?needs ' \.\. missing\)+ end\nend\n", "", text, flags=re.DOTALL)


def of_calls(redis, gateway, binary):
    with open(os.path.join(ceiling.HERE, "yardstick.lua")) as f:
        least = yardstick_call(redis.load(f.read()))
    nothing = redis.load("return 1")
    yardstick = cost(redis, least, 400)
    print(f"yardstick: {yardstick:.0f} a call, {cost(redis, [least[0], nothing, *least[2:]], 80):.0f} of them for no script at all")
    for batch, times in ((1, 1200), (64, 24)):
        feed = f"{ceiling.FEED}{batch}"
        # A feed begins by another script, and the call after it is left to that one too; its list is full.
        for digit in "abcdef0123456":
            gateway.post(ceiling.gifts_path(feed, 1), ceiling.gift(digit * 12))
        call = ceiling.captured_call(redis, gateway, batch, feed)
        bare = [call[0], redis.load(without_rights(binary)), *call[2:]]
        own, unchecked = cost(redis, call, times) / batch, cost(redis, bare, times) / batch
        print(f"batch {batch:2}: the check of rights is {own - unchecked:.0f} a gift, {own / unchecked - 1:.1%} more", flush=True)
        own, empty = cost(redis, call, times) / batch, cost(redis, [call[0], nothing, *call[2:]], 80) / batch
        print(f"batch {batch:2}: {own:.0f} a gift, {own / yardstick:.2f} of the yardstick; {empty:.0f} of them "
              f"({empty / yardstick:.2f}) for no script at all", flush=True)


def of_counting(redis, gateway, gifts):
    for users in (1000, 1):
        cost = {}
        for name, policy in (("off", totals.NOTHING), ("on", totals.EVERYTHING)):
            path = f"/v1/feeds/{name}-{users}"
            assert gateway.call("PUT", f"{path}/policy", policy)[0] == 200

            def post(first, last):
                for n in range(first, last, 64):
                    many = {"gifts": [totals.gift(k, users) for k in range(n, n + 64)]}
                    status, said = gateway.call("POST", f"{path}/gifts/batch", many)
                    while status == 503:
                        time.sleep(1)
                        status, said = gateway.call("POST", f"{path}/gifts/batch", many)
                    assert status == 200 and said["rejected"] == 0, said
                time.sleep(3)

            post(0, 1920)
            cost[name] = redis.instructions(lambda: post(1920, 1920 + gifts)) / gifts
        print(f"batches of 64, {users} gifters: {cost['off']:.0f} a gift off, {cost['on']:.0f} on, "
              f"{cost['on'] / cost['off']:.2f} of it", flush=True)


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--binary", default=os.path.join(ceiling.HERE, "../target/release/tipcast"))
    ask.add_argument("--gifts", type=int, default=1920)
    ask.add_argument("--only", choices=["calls", "counting"])
    it = ask.parse_args()
    redis = CountedRedis()
    folder, gateway = tempfile.mkdtemp(), None
    try:
        # A Redis that is so slow must not count as one that is gone.
        os.environ["TIPCAST_REDIS__CALL_TIMEOUT_MS"] = "4000"
        gateway = totals.Gateway(it.binary, folder, redis.port)
        gateway.post = lambda path, body: gateway.call("POST", path, body)
        if it.only in (None, "calls"):
            of_calls(redis, gateway, it.binary)
        if it.only in (None, "counting"):
            of_counting(redis, gateway, it.gifts // 64 * 64)
    finally:
        if gateway:
            gateway.stop()
        redis.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
