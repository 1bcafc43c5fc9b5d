#!/usr/bin/env python3
"""Sets Tipcast and its peers beside each other: the same work, the same counting, one run, one machine.

    make bench                      everything; writes docs/BENCHMARKS.md
    make bench ONLY=idle,quiet      these parts only; prints, and writes nothing into docs
    make bench ONLY=full PEERS=uWebSockets,nchan     Tipcast beside these only

uWebSockets is measured where the variable UWEBSOCKETS leads to its sources, with uSockets in them or beside them.

Every server is started here, on loopback and a free port, with nothing else running, and stopped again.
"""

import argparse
import json
import subprocess
import sys
import time

import ingest
import page
import plots
import servers
from servers import (
    Centrifugo, Missing, Mosquitto, Nats, Nchan, SecureNchan, SecureTipcast, SocketIo, Tipcast, UWebSockets, Ws,
)

# Seconds after which a load is given up: no server that keeps up takes a quarter of that.
TOO_LONG = 240

ALL = [Tipcast, UWebSockets, Nchan, Nats, Mosquitto, Centrifugo, Ws, SocketIo]


class Run:
    """What was measured so far: rows by part."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.rows = {}
        self.missing = {}

    def load(self, server, args):
        """One run of the load against a running server; gives its report."""
        command = server.load() + ["--json", "-"] + [str(arg) for arg in args]
        if "--seconds" not in args:
            command += ["--seconds", str(self.seconds)]
        for pid in server.pids():
            command += ["--pid", str(pid)]
        # NATS and MQTT keep the order of one publisher only, and take many messages at a time from it.
        if server.load()[0].endswith("peer_load") and server.dialect in ("nats", "mqtt"):
            command += ["--producers", "1"]
        # An exit code of 1 with a report is a run in which something was lost: it goes into the table.
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TOO_LONG)
        except subprocess.TimeoutExpired as late:
            raise Missing(f"{server.label}: the load did not end within {TOO_LONG} s") from late
        if not done.stdout.strip():
            raise Missing(f"{server.label}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)

    def measure(self, part, kind, variants):
        """Measures one server in one part: `variants` are (name, arguments)."""
        for name, args in variants:
            try:
                with kind() as server:
                    report = self.load(server, args(server) if callable(args) else args)
                    self.add(part, {"server": server.label, "version": server.version, "name": name}, report)
            except Missing as why:
                self.missing[kind.label] = str(why)
                print(f"  {kind.label} is left out: {why}", flush=True)
                return

    def add(self, part, row, report):
        row["report"] = report
        self.rows.setdefault(part, []).append(row)
        print("  " + page.brief(row), flush=True)


def ours(kind, default, *more):
    """The variants of a part: Tipcast with its default flush_ms and with 0, others as they are."""
    if kind is Tipcast:
        return [("flush_ms 50", [*default, *more]), ("flush_ms 0", [*default, *more, "--flush-ms", 0])]
    return [("", [*default, *more])]


def paced(run):
    for kind in ALL:
        run.measure("paced", kind, ours(kind, ["--watchers", 1000, "--rate", 100]))


def full(run):
    for flight in (16, 256):
        for kind in ALL:
            # At full speed the load naps: else each of a thousand writes pays for waking it.
            work = ["--watchers", 1000, "--rate", 0, "--in-flight", flight, "--until", "delivered", "--nap", 1000]
            variants = [(f"{flight} in flight {name}".strip(), args) for name, args in ours(kind, work)]
            run.measure("full", kind, variants)


def crowd(watchers):
    """This number of watchers, 2 000 of each source address: past some thousands of one address, the kernel's search for a
    free port costs more than anything that is measured."""
    return ["--watchers", watchers, "--source-addresses", -(-watchers // 2000)]


def idle(run):
    for kind in ALL:
        work = ["--idle", *crowd(kind.idle_watchers)]
        run.measure("idle", kind, [("", work + ["--seconds", 1])])


def storm(run):
    # At ten gifts a second sixteen thousand watchers are as many deliveries as all others together can make.
    for kind in ALL:
        watchers = kind.idle_watchers
        work = ["--storm", *crowd(watchers), "--connecting", watchers, "--rate", 10, "--seconds", 2]
        run.measure("storm", kind, [("", work)])


def stall(run):
    # More than the kernel holds for one connection, so that those that do not read are really behind.
    work = ["--watchers", 2000, "--rate", 250, "--seconds", max(run.seconds, 6)]
    run.measure("stall", Tipcast, [("all read", work), ("half stalled", work + ["--stall", 0.5])])
    rows = run.rows.get("stall", [])
    if len(rows) == 2:
        # What the same gifts cost in memory when all read is no stalled watcher's.
        read, stalled = (row["report"] for row in rows)
        more = stalled["server"]["rss_grew"] - read["server"]["rss_grew"]
        stalled["stalled"]["server_bytes_each"] = round(more / stalled["stalled"]["watchers"])


def quiet(run):
    # 250 ms apart: each gift comes to a feed that rested for longer than flush_ms.
    for kind in ALL:
        work = ["--watchers", 1000, "--rate", 4, "--seconds", max(run.seconds, 6)]
        run.measure("quiet", kind, [("", work)])


def scaling(run):
    # 50 000 deliveries/s in frames of one, whatever the shape; what the gifts themselves cost is measured
    # without watchers and subtracted.
    for watchers, feeds in ((100, 1), (1000, 1), (4000, 1), (16000, 1), (16000, 30), (16000, 1000)):
        rate = 50_000 * feeds / watchers
        # Beside it, what the kernel alone makes of this number of sockets shows in the others' growth.
        for kind in (kind for kind in ALL if kind in (Tipcast, Nchan, UWebSockets)):
            work = ["--feeds", feeds, "--rate", rate] + (["--flush-ms", 0] if kind is Tipcast else [])
            try:
                with kind() as server:
                    alone = run.load(server, [*work, "--watchers", 0])
                    report = run.load(server, [*work, *crowd(watchers)])
            except Missing as why:
                run.missing[kind.label] = str(why)
                continue
            gift = alone["server"]["cpu_seconds"] / max(alone["gifts"]["accepted"], 1)
            cpu = report["server"]["cpu_seconds"] - gift * report["gifts"]["accepted"]
            report["server"]["cpu_seconds_per_million_deliveries"] = round(
                cpu / report["deliveries"]["measured"] * 1e6, 3)
            row = {"server": server.label, "version": server.version, "name": f"{watchers} watchers, {feeds} feeds"}
            run.add("scaling", row, report)


def tls(run):
    """The server's own TLS beside the same without, and nginx's in front of nchan: TLS 1.3, P-256."""
    idle_work = ["--idle", "--watchers", 4000, "--source-addresses", 8, "--connecting", 32, "--seconds", 1]
    for plain, secure in ((Tipcast, SecureTipcast), (Nchan, SecureNchan)):
        paced_work = ["--watchers", 1000, "--rate", 100]
        run.measure("tls", plain, [("plain", idle_work), ("plain, 100 gifts/s", paced_work)])
        run.measure("tls", secure, [("TLS, full handshakes", idle_work), ("TLS, resumed", [*idle_work, "--resume"]),
                                    ("TLS, 100 gifts/s", paced_work)])


PARTS = {
    "paced": paced, "full": full, "idle": idle, "storm": storm, "stall": stall, "quiet": quiet, "scaling": scaling,
    "tls": tls,
    "ingest": ingest.measure,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--peers", default="", help=f"Tipcast beside some of {','.join(k.label for k in ALL[1:])}")
    parser.add_argument("--seconds", type=float, default=4, help="how long each load is measured")
    options = parser.parse_args()
    chosen = [part for part in options.only.split(",") if part] or list(PARTS)
    unknown = [part for part in chosen if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if options.peers:
        named = options.peers.lower().split(",")
        beside = [kind for kind in ALL[1:] if any(kind.label.lower().startswith(name) for name in named)]
        if len(beside) != len(named):
            parser.error(f"no such peer among {options.peers}; there are {', '.join(k.label for k in ALL[1:])}")
        ALL[1:] = beside
    servers.install()
    run = Run(options.seconds)
    began = time.monotonic()
    for part in chosen:
        print(f"{part}:", flush=True)
        PARTS[part](run)
    took = time.monotonic() - began
    results = servers.ROOT / "target" / "bench.json"
    results.write_text(json.dumps({"rows": run.rows, "missing": run.missing}, indent=1))
    text = page.text(run.rows, run.missing, took)
    if len(chosen) == len(PARTS) and not options.peers:
        (servers.ROOT / "docs" / "BENCHMARKS.md").write_text(text)
        plots.draw()
        print(f"docs/BENCHMARKS.md is written; all figures are in {results}")
    else:
        print(text)


if __name__ == "__main__":
    sys.exit(main())
