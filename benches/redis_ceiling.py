#!/usr/bin/env python3
"""How close ingest over HTTP comes to what the store itself can do, in one run.

    benches/redis_ceiling.py [--binary target/release/tipcast] [--seconds 5] [--only redis|embedded]

Starts a Redis and a gateway of its own on free ports. One gift, and one batch of 64, go through the
gateway while MONITOR listens: that call, with its gift and user ids made random, is what redis-benchmark
then repeats from 64 connections, so the ceiling is the very script with the very arguments; beside it stands what
benches/yardstick.lua costs, which writes as much and keeps no rule. Next wrk
sends the same gifts to the gateway from 64 connections. The same loads go to the embedded engine, in a
folder under target/ (a real disk: an fsync must cost what it costs).

Every user id is used once, so every gift is a new row; `--users N` lets them repeat, which merges.
Who used how much CPU stands beside each figure: all of it shares this machine.
Needs redis-server, redis-cli, redis-benchmark and wrk. Nothing is left behind.
"""

import argparse
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from repeatable import repeatable

HERE = os.path.dirname(os.path.abspath(__file__))
MARK = "000000000000"  # 12 digits, as redis-benchmark writes its random ones
FEED = "ceiling"


def gift(mark):
    return {
        "id": f"g-{mark}",
        "user": {"id": f"u-{mark}", "name": "A viewer"},
        "gift": {"id": "rose", "name": "Rose"},
        "count": 3,
        "value": {"amount": 100, "currency": "USD"},
        "message": "for you",
    }


def wrk_script(batch, users, feed, feeds):
    """Lua for wrk: every gift of every thread and run has its own id; `users` 0 is a user per gift.
    `feeds` above 1 take turns."""
    one = json.dumps(gift(MARK), separators=(",", ":"))
    parts = one.replace("g-" + MARK, "g-@").replace("u-" + MARK, "u-#")
    user = "id" if users == 0 else f"n % {users}"
    return f"""
local run, threads = {int(time.time() * 1000) % 10_000_000_000}, 0
function setup(thread) threads = threads + 1; thread:set("no", threads) end
local n = 0
local function one()
  n = n + 1
  local id = string.format("%d-%d-%d", run, no, n)
  local user = tostring({user})
  return [=[{parts.split("@")[0]}]=] .. id .. [=[{parts.split("@")[1].split("#")[0]}]=] .. user
    .. [=[{parts.split("#")[1]}]=]
end
function request()
  local body
  if {batch} == 1 then body = one() else
    local all = {{}}
    for i = 1, {batch} do all[i] = one() end
    body = '{{"gifts":[' .. table.concat(all, ",") .. ']}}'
  end
  local path = nil
  if {feeds} > 1 then path = string.gsub(wrk.path, "{feed}", "{feed}-" .. n % {feeds}) end
  return wrk.format("POST", path, {{["Content-Type"] = "application/json"}}, body)
end
function done(summary, latency)
  io.write(string.format("RESULT %d %d %d %.3f %.3f\\n", summary.requests, summary.duration,
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Redis:
    def __init__(self):
        self.port = free_port()
        self.folder = tempfile.mkdtemp()
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", self.folder, "--loglevel", "warning"], stdout=subprocess.DEVNULL)
        self.pid = self.process.pid
        wait_for(lambda: self.cli("ping").strip() == "PONG")

    def cli(self, *args, **more):
        command = ["redis-cli", "-p", str(self.port), *args]
        return subprocess.run(command, capture_output=True, text=True, **more).stdout

    def calls(self):
        """Runs and microseconds of EVALSHA so far, as the server counts them."""
        for line in self.cli("info", "commandstats").splitlines():
            if line.startswith("cmdstat_evalsha:"):
                values = dict(part.split("=") for part in line.split(":")[1].split(","))
                return int(values["calls"]), int(values["usec"])
        return 0, 0

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Gateway:
    def __init__(self, binary, *flags):
        self.port = free_port()
        self.process = subprocess.Popen([binary, "--listen", f"127.0.0.1:{self.port}", *flags],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        wait_for(lambda: self.get("/readyz"))

    def get(self, path):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=2).status == 200
        except OSError:
            return False

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def wait_for(ready):
    for _ in range(200):
        if ready():
            return
        time.sleep(0.05)
    sys.exit("it did not start")


def gifts_path(feed, batch):
    return f"/v1/feeds/{feed}/gifts" + ("" if batch == 1 else "/batch")


def captured_call(redis, gateway, batch, feed):
    """The EVALSHA that `batch` gifts in one request cause, as arguments for redis-benchmark."""
    monitor = subprocess.Popen(["redis-cli", "-p", str(redis.port), "monitor"], stdout=subprocess.PIPE, text=True)
    monitor.stdout.readline()
    marks = [str(n).rjust(12, "7") for n in range(batch)]
    body = gift(marks[0]) if batch == 1 else {"gifts": [gift(mark) for mark in marks]}
    gateway.post(gifts_path(feed, batch), body)
    # Calls of the same feed that ask something else are shorter.
    for line in monitor.stdout:
        if '"EVALSHA"' in line and marks[-1] in line and " lua]" not in line:
            break
    monitor.kill()
    monitor.wait()
    words = json.loads("[" + ",".join(split_words(line)) + "]")
    for at, word in enumerate(words):
        for mark in marks:
            word = word.replace(mark, "__rand_int__")
        words[at] = word
    return repeatable(words)


def split_words(line):
    """The quoted words of a MONITOR line, each valid JSON."""
    words, at = [], line.index('"')
    while at < len(line) and line[at] == '"':
        end = at + 1
        while line[end] != '"':
            end += 2 if line[end] == "\\" else 1
        words.append(line[at:end + 1])
        at = end + 2
    return words


def benchmark(redis, call, clients, seconds, rate):
    """redis-benchmark repeating `call`; calls/s, and microseconds of each by the server's own count."""
    before, cpu, mine = redis.calls(), cpu_of(redis.pid), children_cpu()
    count = max(1000, int(rate * seconds))
    command = ["redis-benchmark", "-p", str(redis.port), "-c", str(clients), "-n", str(count), "-r",
               "2000000000", "--csv", *call]
    began = time.time()
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    took = time.time() - began
    after = redis.calls()
    per_call = (after[1] - before[1]) / max(1, after[0] - before[0])
    # "the command, quotes and all",rps,average,min,p50,p95,p99,max
    rps = float(out.strip().rsplit(",", 7)[1].strip('"'))
    shares = {"redis": (cpu_of(redis.pid) - cpu) / took, "redis-benchmark": (children_cpu() - mine) / took}
    return rps, per_call, shares


def yardstick(redis, it):
    """Microseconds of a call, and of Redis' CPU for one, of the least that a gift must write."""
    with open(os.path.join(HERE, "yardstick.lua")) as f:
        sha = redis.cli("-x", "script", "load", input=f.read()).strip()
    keys = ["list", "seq", "id:__rand_int__", "lock:__rand_int__", "hist", "ledger"]
    call = ["EVALSHA", sha, "6", *("{y}:" + key for key in keys),
            json.dumps(gift("__rand_int__"), separators=(",", ":")), "{y}:live", "0123456789abcdef"]
    rps, per_call, shares = benchmark(redis, call, it.clients, it.seconds, 25_000)
    redis.cli("flushall")
    return per_call, shares["redis"] / rps * 1e6


def wrk(gateway, batch, it, feed, watched):
    script = tempfile.NamedTemporaryFile("w", suffix=".lua")
    script.write(wrk_script(batch, it.users, feed, it.feeds))
    script.flush()
    before = {name: cpu_of(pid) for name, pid in watched.items()}
    mine, began = children_cpu(), time.time()
    out = subprocess.run(
        ["wrk", "-t1", f"-c{it.clients}", f"-d{it.seconds}s", "--latency", "-s", script.name,
         f"http://127.0.0.1:{gateway.port}{gifts_path(feed, batch)}"], capture_output=True, text=True).stdout
    took = time.time() - began
    result = next(line for line in out.splitlines() if line.startswith("RESULT")).split()[1:]
    requests, duration, errors = (int(n) for n in result[:3])
    shares = {name: (cpu_of(pid) - before[name]) / took for name, pid in watched.items()}
    shares["wrk"] = (children_cpu() - mine) / took
    if errors:
        print(f"  ! {errors} requests failed")
    return requests * batch / (duration / 1e6), float(result[3]), float(result[4]), shares


def told(shares):
    return "  CPU " + ", ".join(f"{name} {share:.2f}" for name, share in shares.items())


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--binary", default=os.path.join(HERE, "../target/release/tipcast"))
    ask.add_argument("--seconds", type=int, default=5)
    ask.add_argument("--clients", type=int, default=64)
    ask.add_argument("--users", type=int, default=0)
    ask.add_argument("--feeds", type=int, default=1, help="the gifts go to so many feeds in turn; the ceiling is one feed's")
    ask.add_argument("--only", choices=["redis", "embedded"])
    ask.add_argument("--batches", default="1,64")
    it = ask.parse_args()
    batches = [int(n) for n in it.batches.split(",")]
    if it.only != "embedded":
        redis = Redis()
        gateway = Gateway(it.binary, "--redis", f"redis://127.0.0.1:{redis.port}/")
        try:
            least, least_cpu = yardstick(redis, it)
            print(f"redis   yardstick {least:.1f} µs per call, {least_cpu:.1f} µs of Redis' CPU")
            for batch in batches:
                # A feed begins by another script, and the call after it is left to that one too; its list is full.
                for digit in "abcdef0123456":
                    gateway.post(gifts_path(f"{FEED}{batch}", 1), gift(digit * 12))
                call = captured_call(redis, gateway, batch, f"{FEED}{batch}")
                if it.users:
                    call = [word if "lock" not in word else word.replace("__rand_int__", MARK) for word in call]
                rps, per_call, shares = benchmark(redis, call, it.clients, it.seconds, 25_000 / (batch / 3 + 1))
                ceiling = rps * batch
                print(f"redis   batch {batch:3} ceiling {ceiling:9.0f} gifts/s; script {per_call:.1f} µs per call, "
                      f"{per_call / batch:.2f} per gift, {per_call / batch / least:.2f} of the yardstick, by CPU "
                      f"{shares['redis'] / ceiling * 1e6 / least_cpu:.2f}{told(shares)}")
                rate, p50, p99, shares = wrk(gateway, batch, it, f"{FEED}{batch}",
                                             {"redis": redis.pid, "tipcast": gateway.pid})
                print(f"redis   batch {batch:3} HTTP    {rate:9.0f} gifts/s = {rate / ceiling:.2f} of it; p50 {p50} ms, "
                      f"p99 {p99} ms{told(shares)}", flush=True)
                redis.cli("flushall")
        finally:
            gateway.stop()
            redis.stop()
    if it.only != "redis":
        for batch in batches:
            target = os.path.join(HERE, "../target/tmp")
            os.makedirs(target, exist_ok=True)
            folder = tempfile.mkdtemp(dir=target)
            gateway = Gateway(it.binary, "--data-dir", folder)
            try:
                rate, p50, p99, shares = wrk(gateway, batch, it, FEED,
                                             {"tipcast": gateway.pid})
                print(f"embedded batch {batch:3} HTTP    {rate:9.0f} gifts/s; p50 {p50} ms, p99 {p99} ms{told(shares)}",
                      flush=True)
            finally:
                gateway.stop()
                shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
