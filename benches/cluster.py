#!/usr/bin/env python3
"""What a cluster costs, and how it breaks, in one run.

    benches/cluster.py [--binary target/release/tipcast] [--seconds 5] [--rounds 3] [--only routing,bus,...]

Starts servers and gateways of its own on free ports, and tells:

  routing    CPU of the gateway for a gift over HTTP: one Redis against a cluster with one shard, in turn
  balance    how many gifts each of three shards gets from a thousand feeds, with the CPU of each process for a gift; and
             by reckoning, the fullest of 3, 30 and 300 shards for 100 to 100 000 feeds
  bus        bytes that the nodes of a cluster write to each other for a message by PUBLISH and by SPUBLISH
  kill       times of gifts on two shards while the third is killed and replaced, against before; and how long from the
             promotion until a gift is taken again
  sentinel   the same delay behind three sentinels

It needs redis-server, redis-cli and wrk. All of it shares this machine: where several processes want more than its
cores, times say less than CPU does. Nothing is left behind.
"""

import argparse
import http.client
import json
import os
import random
import subprocess
import tempfile
import threading
import time

from redis_ceiling import HERE, Gateway, Redis, cpu_of, free_port, wait_for, wrk

SLOTS = 16_384


def slot_of(tag):
    """CRC-16/XMODEM, by which a cluster spreads keys."""
    crc = 0
    for byte in tag.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
    return (crc & 0xFFFF) % SLOTS


class Node(Redis):
    """A server with more options than a plain one."""

    def __init__(self, *options, config=None):
        self.port, self.bus, self.folder = free_port(), free_port(), tempfile.mkdtemp()
        command = ["redis-server"]
        if config is not None:
            path = os.path.join(self.folder, "sentinel.conf")
            with open(path, "w") as f:
                f.write(config)
            command += [path, "--sentinel"]
        else:
            command += ["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"]
        command += ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder, "--loglevel", "warning"]
        if "--cluster-enabled" in options:
            command += ["--cluster-port", str(self.bus)]
        self.process = subprocess.Popen(command + list(options), stdout=subprocess.DEVNULL)
        self.pid = self.process.pid
        wait_for(lambda: self.cli("ping").strip() == "PONG")

    def info(self, name):
        return next((line.split(":")[1] for line in self.cli("info", "replication").split() if line.startswith(name)), "")

    def written(self):
        with open(f"/proc/{self.pid}/io") as f:
            return int(next(line for line in f if line.startswith("wchar")).split()[1])


class Cluster:
    def __init__(self, primaries, replicas=0):
        options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no",
                   "--cluster-replica-validity-factor", "0"]
        self.nodes = [Node(*options) for _ in range(primaries * (1 + replicas))]
        share = SLOTS // primaries
        self.ranges = []
        for at, node in enumerate(self.nodes):
            if at < primaries:
                first, last = at * share, SLOTS - 1 if at + 1 == primaries else (at + 1) * share - 1
                node.cli("cluster", "addslotsrange", str(first), str(last))
                self.ranges.append(range(first, last + 1))
            self.nodes[0].cli("cluster", "meet", "127.0.0.1", str(node.port), str(node.bus))
        for node in self.nodes:
            wait_for(lambda: f"cluster_known_nodes:{len(self.nodes)}" in node.cli("cluster", "info"))
        for at, node in enumerate(self.nodes[primaries:]):
            name = self.nodes[at // replicas].cli("cluster", "myid").strip()
            wait_for(lambda: node.cli("cluster", "replicate", name).strip() == "OK")
        for node in self.nodes:
            wait_for(lambda: "cluster_state:ok" in node.cli("cluster", "info"))
            wait_for(lambda: node.info("role") == "master" or node.info("master_link_status") == "up")
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def feed_at(self, shard):
        return next(f"show-{n}" for n in range(10_000) if slot_of(f"show-{n}") in self.ranges[shard])

    def stop(self):
        for node in self.nodes:
            node.stop()


def routing(it):
    """Alternating, so that what else the machine does meets both."""
    single, cluster = Redis(), Cluster(1)
    figures = {"one Redis": [], "a cluster with one shard": []}
    try:
        for _ in range(it.rounds):
            for name, url in (("one Redis", f"redis://127.0.0.1:{single.port}/"), ("a cluster with one shard", cluster.url)):
                gateway = Gateway(it.binary, "--redis", url)
                try:
                    load = argparse.Namespace(users=0, feeds=200, clients=16, seconds=it.seconds)
                    before = cpu_of(gateway.pid)
                    rate, _, _, _ = wrk(gateway, 1, load, "show", {})
                    figures[name].append((cpu_of(gateway.pid) - before) / (rate * it.seconds) * 1e6)
                finally:
                    gateway.stop()
    finally:
        single.stop()
        cluster.stop()
    least = {name: min(values) for name, values in figures.items()}
    for name, values in figures.items():
        print(f"routing   {name:25} {least[name]:6.1f} µs of the gateway's CPU per gift, the least of "
              + ", ".join(f"{value:.1f}" for value in values))
    more = least["a cluster with one shard"] / least["one Redis"] - 1
    print(f"routing   the cluster's is {more * 100:+.1f} %", flush=True)


def balance(it):
    cluster = Cluster(3)
    gateway = Gateway(it.binary, "--redis", cluster.url)
    try:
        load = argparse.Namespace(users=0, feeds=1_000, clients=64, seconds=it.seconds)
        calls = [node.calls()[0] for node in cluster.nodes]
        before = [cpu_of(node.pid) for node in cluster.nodes] + [cpu_of(gateway.pid)]
        rate, p50, p99, _ = wrk(gateway, 1, load, "show", {})
        after = [cpu_of(node.pid) for node in cluster.nodes] + [cpu_of(gateway.pid)]
        gifts = rate * it.seconds
        each = [node.calls()[0] - was for node, was in zip(cluster.nodes, calls)]
        print(f"balance   {rate:.0f} gifts/s to 1 000 feeds on 3 shards, p50 {p50} ms, p99 {p99} ms; each shard's share: "
              + ", ".join(f"{n / sum(each):.1%}" for n in each))
        spent = [(b - a) / gifts * 1e6 for a, b in zip(before, after)]
        print(f"balance   µs of CPU per gift: gateway {spent[3]:.1f}; shards "
              + ", ".join(f"{cpu / (n / sum(each)):.1f} for each of its own" for cpu, n in zip(spent, each)), flush=True)
    finally:
        gateway.stop()
        cluster.stop()
    dice = random.Random(1)
    for kind, name in (("numbered", lambda n: f"show-{n}"), ("random", lambda n: f"{dice.getrandbits(64):x}")):
        for feeds in (100, 1_000, 10_000, 100_000):
            slots, told = [slot_of(name(n)) for n in range(feeds)], []
            for shards in (3, 30, 300):
                counts = [0] * shards
                for slot in slots:
                    counts[slot * shards // SLOTS] += 1
                told.append(f"{shards}: {max(counts) / (feeds / shards):.2f} ×")
            print(f"balance   {feeds} {kind} names, the fullest shard to the mean of {', '.join(told)}")


def bus(it):
    count, text = 20_000, "x" * 310
    for command in ("publish", "spublish"):
        cluster = Cluster(3)
        try:
            channel = "{" + cluster.feed_at(0) + "}:live"
            time.sleep(3)  # What nodes say anyway has calmed down.
            before, began = [node.written() for node in cluster.nodes], time.time()
            time.sleep(3)
            idle = [(node.written() - was) / (time.time() - began) for node, was in zip(cluster.nodes, before)]
            before, began = [node.written() for node in cluster.nodes], time.time()
            pipe = subprocess.Popen(["redis-cli", "-p", str(cluster.nodes[0].port), "--pipe"], stdin=subprocess.PIPE,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
            pipe.communicate("".join(f"{command} {channel} {text}\r\n" for _ in range(count)))
            time.sleep(1)
            took = time.time() - began
            wrote = [(node.written() - was - rest * took) / count
                     for node, was, rest in zip(cluster.nodes, before, idle)]
            print(f"bus       {command.upper():8} of 310 bytes: nodes write {wrote[0]:.0f}, {wrote[1]:.0f} and {wrote[2]:.0f} "
                  "bytes per message, the answer to the publisher among the first", flush=True)
        finally:
            cluster.stop()


class Producer(threading.Thread):
    """Posts to one feed, 100 gifts a second, and keeps when each was answered, how, and after how long."""

    def __init__(self, gateway, feed):
        super().__init__(daemon=True)
        self.port, self.feed, self.done, self.seen = gateway.port, feed, False, []

    def run(self):
        line, n = None, 0
        while not self.done:
            n += 1
            body = json.dumps({"id": f"g{n}", "user": {"id": f"u{n}", "name": "A"}, "gift": {"id": "r", "name": "R"}})
            began = time.time()
            try:
                line = line or http.client.HTTPConnection("127.0.0.1", self.port, timeout=6)
                line.request("POST", f"/v1/feeds/{self.feed}/gifts", body, {"Content-Type": "application/json"})
                answer = line.getresponse()
                answer.read()
                status = answer.status
            except (OSError, http.client.HTTPException):
                line, status = None, 0
            ended = time.time()
            self.seen.append((began, ended, status))
            time.sleep(max(0, 0.01 - (ended - began)))

    def stop(self):
        self.done = True
        self.join()

    def times(self, since, until):
        return sorted(end - begin for begin, end, _ in self.seen if since <= begin < until)

    def first_after(self, when):
        return next(end for begin, end, status in self.seen if begin > when and status in (200, 201)) - when


def p99(times):
    return times[len(times) * 99 // 100] * 1e3


def kill(it):
    cluster = Cluster(3, 1)
    gateway = Gateway(it.binary, "--redis", cluster.url)
    producers = [Producer(gateway, cluster.feed_at(shard)) for shard in range(3)]
    try:
        for producer in producers:
            producer.start()
        time.sleep(it.seconds)
        killed = time.time()
        cluster.nodes[2].process.kill()
        cluster.nodes[2].process.wait()
        promoted = when(cluster.nodes[5])
        time.sleep(max(2, it.seconds - (promoted - killed)))
        for producer in producers:
            producer.stop()
        for shard, producer in enumerate(producers[:2]):
            before, after = (producer.times(killed - it.seconds + 1, killed), producer.times(killed, promoted + 1))
            bad = sum(1 for begin, _, status in producer.seen if begin >= killed and status not in (200, 201))
            print(f"kill      shard {shard}: p99 {p99(before):.1f} ms before, {p99(after):.1f} ms while another is away "
                  f"({p99(after) / p99(before):.2f} ×), {bad} refused of {len(after)}")
        print(f"kill      a replica was promoted {promoted - killed:.2f} s after the kill; a gift was taken "
              f"{producers[2].first_after(promoted) * 1e3:.0f} ms later", flush=True)
    finally:
        gateway.stop()
        cluster.stop()


def sentinel(it):
    primary = Node()
    replica = Node("--replicaof", "127.0.0.1", str(primary.port))
    wait_for(lambda: "state=online" in primary.cli("info", "replication"))
    lines = (f"sentinel monitor main 127.0.0.1 {primary.port} 2\nsentinel down-after-milliseconds main 1500\n"
             "sentinel failover-timeout main 4000\n")
    sentinels = [Node(config=lines) for _ in range(3)]
    gateway = None
    try:
        for one in sentinels:
            wait_for(lambda: "num-other-sentinels\n2" in one.cli("sentinel", "master", "main"))
        gateway = Gateway(it.binary, "--redis", "redis+sentinel://"
                          + ",".join(f"127.0.0.1:{one.port}" for one in sentinels) + "/main")
        producer = Producer(gateway, "show")
        producer.start()
        time.sleep(2)
        killed = time.time()
        primary.process.kill()
        primary.process.wait()
        promoted = when(replica)
        time.sleep(3)
        producer.stop()
        print(f"sentinel  the replica was promoted {promoted - killed:.2f} s after the kill; a gift was taken "
              f"{producer.first_after(promoted) * 1e3:.0f} ms later", flush=True)
    finally:
        if gateway:
            gateway.stop()
        for server in (primary, replica, *sentinels):
            server.stop()


def when(replica):
    """Waits until it is the primary; the time then."""
    while replica.info("role") != "master":
        time.sleep(0.01)
    return time.time()


PARTS = {"routing": routing, "balance": balance, "bus": bus, "kill": kill, "sentinel": sentinel}


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--binary", default=os.path.join(HERE, "../target/release/tipcast"))
    ask.add_argument("--seconds", type=int, default=5)
    ask.add_argument("--rounds", type=int, default=3)
    ask.add_argument("--only", default=",".join(PARTS))
    it = ask.parse_args()
    for name in it.only.split(","):
        PARTS[name](it)


if __name__ == "__main__":
    main()
