#!/usr/bin/env python3
"""How late a scheduled gift reaches a watcher, end to end, after the gateway had nothing to do for a while.

    benches/scheduled.py target/release/tipcast

Posts gifts with `delay_ms` 500 to a gateway that it starts itself, each after a pause, and compares the time at which a
watcher has the row with the `deliver_at` of the answer. Takes about two and a half minutes, most of it pauses.
"""
import datetime
import json
import statistics
import struct
import sys
import time

import hostile

# Pauses in seconds, and how many gifts after such a one: below and beyond [due] longest_sleep_ms.
PAUSES = [(0.5, 10), (3, 10), (12, 4), (31, 2)]


def frame(sock):
    def exactly(size):
        got = b""
        while len(got) < size:
            more = sock.recv(size - len(got))
            assert more, "the watcher was cut"
            got += more
        return got

    opening, size = exactly(2)
    if size == 126:
        (size,) = struct.unpack("!H", exactly(2))
    elif size == 127:
        (size,) = struct.unpack("!Q", exactly(8))
    payload = exactly(size)
    return payload.decode() if opening & 15 == 1 else ""


def main(binary):
    gateway, n = hostile.Gateway(binary), 0
    for pause, count in PAUSES:
        late = []
        for _ in range(count):
            time.sleep(pause)
            n += 1
            watcher, producer = hostile.websocket("/v1/feeds/show/ws"), hostile.connect()
            frame(watcher)
            gift = {"user": {"id": f"u{n}", "name": "U"}, "gift": {"id": "r", "name": "R"}, "delay_ms": 500}
            status, said = hostile.request(producer, "POST", "/v1/feeds/show/gifts", gift)
            assert status == 202, said
            due = datetime.datetime.fromisoformat(json.loads(said)["deliver_at"]).timestamp()
            while f'"u{n}"' not in frame(watcher):
                pass
            late.append((time.time() - due) * 1e3)
            watcher.close(), producer.close()
        print(f"after {pause} s: {count} gifts, late by {statistics.median(late):.1f} ms in the median, "
              f"{max(late):.1f} at most, {min(late):.1f} at least")
    gateway.stop()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
