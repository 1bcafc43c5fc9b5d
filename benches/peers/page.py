"""docs/BENCHMARKS.md, and the lines on the way there."""

import os
import platform
import subprocess

INTRO = """# Benchmarks

Tipcast and its peers, one after the other, on one machine, with the same load and the same counting:

```sh
make bench                    # everything, and writes this page
make bench ONLY=idle,quiet    # some parts, and prints them
make bench UWEBSOCKETS=/path/to/uWebSockets PEERS=uWebSockets,nchan    # Tipcast beside these only, and prints
```

uWebSockets is there when the variable leads to its sources, with uSockets in them or beside them.

{machine} The load runs on the same machine and cores, in one thread; all traffic is loopback.
CPU is the server's own, user and system, of all its threads and processes, from `/proc`: the load's is not in it.

Each message is the delta that Tipcast sends for one gift, about {bytes} bytes with its headers, and the peers
send the same text. **How each is published to**: Tipcast and nchan by an HTTP POST for each gift; uWebSockets (its own
topics, `-O3`), ws and Socket.IO by an HTTP POST to a program of a few lines
([uwebsockets.cpp](../benches/peers/uwebsockets.cpp), [ws.mjs](../benches/peers/ws.mjs),
[socketio.mjs](../benches/peers/socketio.mjs)); NATS and Mosquitto by their own
protocols, acknowledged, over one connection, since they keep the order of one publisher only. All without compression,
and without TLS but where a table says so.

What the peers do *not* do in these runs, and Tipcast does: every gift is on disk before it is answered (embedded
engine, `synchronous=FULL`), has an idempotency key that is looked up, and is merged into a list that a newcomer gets
first. Tipcast's watchers are sent a snapshot on connecting; the others get nothing. Tipcast joins what comes within
`flush_ms` into one frame; with `flush_ms 0` every gift is its own, as with the others.

Lost, repeated and out of order are counted for every watcher in every run, and are 0 where a table says nothing else.

What single steps cost, one by one: [COSTS.md](COSTS.md).
"""


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"The machine: {os.cpu_count()} cores ({model}), {memory:.0f} GB, Linux {platform.release().split('-')[0]}, "
            f"measured {subprocess.check_output(['date', '-u', '+%Y-%m-%d']).decode().strip()}.")


def get(row, path, default=None):
    value = row["report"]
    for key in path.split("/"):
        value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            return default
    return value


def number(value, places=0):
    if value is None:
        return "–"
    text = f"{value:,.{places}f}".replace(",", " ")
    return text


def brief(row):
    parts = [row["server"], row["name"]]
    for path, after, places in [
        ("deliveries/per_second", "deliveries/s", 0), ("server/cpu_seconds_per_million_deliveries", "CPU-s/M", 3),
        ("latency_ms/watcher/p99", "ms p99", 2), ("latency_ms/last_watcher/p99", "ms p99 to the last", 2),
        ("connect/server_bytes_each", "bytes each", 0), ("storm/all_live_ms", "ms until all are there", 0),
        ("storm/store_reads", "store reads", 0), ("latency_ms/answer/p99", "ms p99 of answers", 1), ("connect/server_cpu_us_each", "µs CPU per connect", 1),
        ("gifts/per_second", "gifts/s", 0),
    ]:
        value = get(row, path)
        if value:
            parts.append(f"{number(value, places)} {after}")
    return ", ".join(part for part in parts if part) + wrong(row)


def wrong(row):
    """What went wrong, in brackets; nothing if all is well."""
    faults = [f"{number(get(row, 'deliveries/' + kind))} {kind.replace('_', ' ')}"
              for kind in ("lost", "repeated", "out_of_order", "malformed") if get(row, "deliveries/" + kind)]
    if get(row, "gifts/refused"):
        faults.append(f"{number(get(row, 'gifts/refused'))} refused")
    if get(row, "watchers_ended"):
        faults.append(f"{number(get(row, 'watchers_ended'))} watchers closed")
    rate, sent = get(row, "load/rate"), get(row, "gifts/per_second")
    if rate and sent and sent < 0.97 * rate:
        faults.append(f"only {number(sent, 1)} gifts/s of {number(rate, 1)}")
    return f" ({'; '.join(faults)})" if faults else ""


def table(rows, columns):
    """Columns are (title, path or function, places)."""
    out = ["| server | " + " | ".join(title for title, *_ in columns) + " |",
           "|---|" + "---:|" * len(columns)]
    for row in rows:
        name = f"{row['server']} {row['version']}".strip() + (f", {row['name']}" if row["name"] else "")
        cells = [path(row) if callable(path) else number(get(row, path), *places) for _, path, *places in columns]
        out.append(f"| {name}{wrong(row)} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


CPU = ("CPU-s per million", "server/cpu_seconds_per_million_deliveries", 2)
FAST = ("deliveries/s", "deliveries/per_second", 0)
JOINED = ("in a frame", "deliveries/per_frame", 1)


def times(whose, title):
    return [(f"{title} p50", f"latency_ms/{whose}/p50", 2), (f"p99{'' if whose == 'watcher' else ' to the last'}",
                                                              f"latency_ms/{whose}/p99", 2)]


def of(rows, part, server, name=""):
    return next((row for row in rows.get(part, []) if row["server"].startswith(server) and name in row["name"]), None)


def judged(rows):
    """The figures that were asked for: (what, wanted, reached, met)."""
    found = []

    def add(what, wanted, value, met, shown):
        if value is not None:
            found.append((what, wanted, shown.format(value), met(value)))

    def ratio(a, b, path):
        a, b = a and get(a, path), b and get(b, path)
        return a / b if a and b else None

    cpu = "server/cpu_seconds_per_million_deliveries"
    nchan = of(rows, "paced", "nchan")
    add("CPU per delivery at 1 000 watchers × 100 gifts/s, default flush_ms, to nchan's", "≤ 0.2",
        ratio(of(rows, "paced", "Tipcast", "50"), nchan, cpu), lambda v: v <= 0.2, "{:.2f}")
    add("the same with flush_ms 0", "≤ 0.8",
        ratio(of(rows, "paced", "Tipcast", "ms 0"), nchan, cpu), lambda v: v <= 0.8, "{:.2f}")
    micro = of(rows, "paced", "uWebSockets")
    add("the same with flush_ms 0, to uWebSockets'", "≤ 0.95",
        ratio(of(rows, "paced", "Tipcast", "ms 0"), micro, cpu), lambda v: v <= 0.95, "{:.2f}")
    add("the same with the default flush_ms, to uWebSockets'", "≤ 0.25",
        ratio(of(rows, "paced", "Tipcast", "50"), micro, cpu), lambda v: v <= 0.25, "{:.2f}")
    add("deliveries/s at full speed, 16 in flight, flush_ms 0, to uWebSockets'", "≥ 1.1",
        ratio(of(rows, "full", "Tipcast", "16 in flight flush_ms 0"), of(rows, "full", "uWebSockets", "16 in"),
              "deliveries/per_second"), lambda v: v >= 1.1, "{:.2f}")
    fast, nchan = of(rows, "full", "Tipcast", "256 in flight flush_ms 0"), of(rows, "full", "nchan", "256")
    add("deliveries/s at full speed, 256 in flight, flush_ms 0, to nchan's", "≥ 3.5",
        ratio(fast, nchan, "deliveries/per_second"), lambda v: v >= 3.5, "{:.2f}")
    add("CPU per delivery there, to nchan's", "≤ 0.33", ratio(fast, nchan, cpu), lambda v: v <= 1 / 3, "{:.2f}")
    idle = of(rows, "idle", "Tipcast")
    if idle:
        add("memory of an idle watcher, bytes", "≤ 512", get(idle, "connect/server_bytes_each"),
            lambda v: v <= 512, "{:.0f}")
        add("CPU per connect with its snapshot, to nchan's without", "≤ 1",
            ratio(idle, of(rows, "idle", "nchan"), "connect/server_cpu_us_each"), lambda v: v <= 1, "{:.2f}")
        add("connects/s (the load's own limit counts)", "≥ 20 000", get(idle, "connect/per_second"),
            lambda v: v >= 20_000, "{:.0f}")
    storm = of(rows, "storm", "Tipcast")
    if storm:
        add("reads of the store when 16 000 watchers come back at once", "1", get(storm, "storm/store_reads"),
            lambda v: v == 1, "{:.0f}")
    read, stalled = of(rows, "stall", "Tipcast", "all"), of(rows, "stall", "Tipcast", "half")
    add("p99 of those that read while as many stall, to p99 when all read", "≤ 1.25",
        ratio(stalled, read, "latency_ms/watcher/p99"), lambda v: v <= 1.25, "{:.2f}")
    if stalled:
        add("memory of the process for a stalled watcher, bytes", "≤ 2 048",
            get(stalled, "stalled/server_bytes_each"), lambda v: v <= 2048, "{:.0f}")
        left = get(stalled, "stalled/watchers", 0) - get(stalled, "stalled/converged", 0)
        add("stalled watchers that did not come to the newest list", "0", left, lambda v: v == 0, "{:.0f}")
    add("p99 from POST to the last of 1 000 on a quiet feed, to nchan's", "≤ 1",
        ratio(of(rows, "quiet", "Tipcast"), of(rows, "quiet", "nchan"), "latency_ms/last_watcher/p99"),
        lambda v: v <= 1, "{:.2f}")

    def spread(wanted):
        found = [get(row, cpu) for row in rows.get("scaling", []) if row["server"] == "Tipcast" and wanted(row)]
        return max(found) / min(found) if len(found) > 1 and min(found) > 0 else None
    add("CPU per delivery, dearest to cheapest from 100 to 16 000 watchers", "≤ 1.3",
        spread(lambda row: get(row, "load/feeds") == 1), lambda v: v <= 1.3, "{:.2f}")
    add("the same from 1 to 1 000 feeds", "≤ 1.3",
        spread(lambda row: get(row, "load/watchers") == 16000), lambda v: v <= 1.3, "{:.2f}")
    rooms = [of(rows, "scaling", server, "1000 feeds") for server in ("Tipcast", "nchan")]
    add("CPU per delivery to 1 000 feeds with 16 watchers each, to nchan's", "≤ 1", ratio(*rooms, cpu),
        lambda v: v <= 1, "{:.2f}")
    for kind, least in (("single", 0.5), ("batches", 0.8)):
        add(f"gifts/s over Redis, {kind}, to redis-benchmark's with the same script", f"≥ {least}",
            ratio(of(rows, "ingest", "Redis", kind), of(rows, "ingest", "redis-benchmark", kind), "gifts/per_second"),
            lambda v, least=least: v >= least, "{:.2f}")
    for kind, least in (("single", 25_000), ("batches", 80_000)):
        best = [get(row, "gifts/per_second") for row in rows.get("ingest", [])
                if row["server"] == "embedded" and kind in row["name"]]
        add(f"durable gifts/s, embedded, {kind}", f"≥ {least:,}".replace(",", " "), max(best, default=None),
            lambda v, least=least: v >= least, "{:.0f}")
    return found


def text(rows, missing, took):
    each = next((get(row, "deliveries/bytes_each") for row in rows.get("full", []) if row["server"] == "Tipcast"), 380)
    parts = [INTRO.format(machine=machine(), bytes=number(each))]
    asked = judged(rows)
    if asked:
        parts.append("## What was asked for\n")
        lines = ["| | wanted | reached | |", "|---|---:|---:|---|"]
        lines += [f"| {what} | {wanted} | {value} | {'met' if met else '**missed**'} |" for what, wanted, value, met in asked]
        parts.append("\n".join(lines) + "\n")
    last = times("last_watcher", "ms to the last,")
    each = times("watcher", "ms to each,")
    connects = [("connects/s", "connect/per_second", 0), ("µs CPU per connect", "connect/server_cpu_us_each", 1),
                ("bytes per idle watcher", "connect/server_bytes_each", 0), ("watchers", "connect/watchers", 0)]
    for part, title, words, columns in [
        ("paced", "1 000 watchers, 100 gifts/s", "One feed. Times are from the moment before the POST.", [CPU, JOINED, *each, *last]),
        ("full", "Full speed", "1 000 watchers. A gift is in flight from its POST until the last watcher has it. The load polls its sockets once a "
         "millisecond, so that waking it costs the server no CPU.",
         [FAST, CPU, JOINED, ("ms to the last, p99", "latency_ms/last_watcher/p99", 1)]),
        ("idle", "Idle watchers", "Memory is resident memory of the server's processes, per watcher; what the kernel holds is not in it.", connects),
        ("storm", "A connect storm", "Ten gifts a second flow when the watchers come, all at once, to a server that nobody watched, as after a restart. "
         "Times are of the gifts that were sent until the last watcher had its list (the others: was let in). A store read is the list of the feed. Lost and repeated are counted of Tipcast only: without numbers nobody can say which messages a "
         "watcher should get that comes in between.",
         [("all there after ms", "storm/all_live_ms", 0), ("µs CPU per watcher, gifts included", "connect/server_cpu_us_each", 1),
          ("ms from POST to answer, p99", "latency_ms/answer/p99", 1), ("to watchers, p99", "latency_ms/watcher/p99", 1),
          ("store reads", "storm/store_reads", 0), ("watchers", "connect/watchers", 0)]),
        ("stall", "Half of 2 000 watchers do not read", "250 gifts/s; those that stall have a receive buffer of 4 KiB, and read again at the end. Bytes per "
         "stalled are what the process grew by more than in the run in which all read.",
         [("p50 of the others", "latency_ms/watcher/p50", 1), ("p99", "latency_ms/watcher/p99", 1),
          ("bytes per stalled", "stalled/server_bytes_each", 0), ("at the newest after", "stalled/converged", 0),
          ("within ms", "stalled/converged_in_ms", 0), ("ops folded", "stalled/folded", 0)]),
        ("quiet", "A quiet feed", "Four gifts a second to 1 000 watchers: each comes when nothing was sent for a while.", [*each, *last]),
        ("scaling", "From few to many", "50 000 deliveries/s in frames of one; what the gifts themselves cost, measured without watchers, is "
         "subtracted. Sixteen thousand sockets do not fit into the caches of a core, which every server pays.", [CPU, FAST]),
        ("tls", "TLS", "TLS 1.3 of the server's own, a key on P-256; resumed: each connection shows the ticket of an earlier one. Watchers of "
         "the rows without gifts are idle.", [*connects, CPU]),
        ("ingest", "Gifts in", "No watchers. redis-benchmark makes the very call that the gateway makes, taken from its MONITOR.",
         [("gifts/s", "gifts/per_second", 0), ("µs CPU per gift", "server/cpu_us_per_gift", 1),
          ("ms to the answer, p50", "latency_ms/answer/p50", 2), ("p99", "latency_ms/answer/p99", 2)]),
    ]:
        if part in rows:
            parts += [f"## {title}\n", words + "\n", table(rows[part], columns)]
    for label, why in missing.items():
        parts.append(f"Where {label} is missing in a table: {why}\n")
    parts.append(f"The run took {took / 60:.0f} minutes.\n")
    return "\n".join(parts)
