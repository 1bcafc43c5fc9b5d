"""Against a gateway of its own: the binary that TIPCAST names."""

from __future__ import annotations

import asyncio
import http.server
import os
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import unittest
from collections.abc import Callable
from typing import Any

import httpx

from tipcast import AsyncTipcast, BadSignature, Entry, EventStore, Gift, Handler, Problem, Tipcast, Unavailable, Webhook

SECRET = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="


class Gateway:
    def __init__(self) -> None:
        self.dir = tempfile.mkdtemp()
        self.process: subprocess.Popen[str] | None = None
        self.url = ""
        self.serve("127.0.0.1:0")

    def serve(self, address: str) -> None:
        env = {**os.environ, "TIPCAST_WEBHOOKS__ALLOW_PRIVATE": "true"}
        self.process = subprocess.Popen(
            [os.environ["TIPCAST"], "--listen", address, "--data-dir", self.dir],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env,
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        self.url = line.removeprefix("listening on ").strip()
        assert self.url.startswith("http"), line

    def kill(self) -> None:
        assert self.process and self.process.stdout
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self.dir)


def gift(n: int) -> Gift:
    return {"id": f"g{n}", "user": {"id": f"u{n}", "name": "Mia"}, "gift": {"id": "rose", "name": "Rose"}}


class Against(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.gateway = Gateway()
        self.addCleanup(self.gateway.stop)
        self.tipcast = AsyncTipcast(self.gateway.url)
        self.addAsyncCleanup(self.tipcast.close)

    async def test_a_gift_is_taken_once_however_often_it_is_sent(self) -> None:
        first = await self.tipcast.post("show", gift(1))
        self.assertEqual((first["status"], first["seq"]), ("accepted", 1))
        again = await self.tipcast.post("show", gift(1))
        self.assertTrue(again["duplicate"])
        self.assertEqual(again["row"], first["row"])

    async def test_a_refusal_says_where_and_what_and_is_not_repeated(self) -> None:
        bad: Any = {**gift(1), "count": 0}
        with self.assertRaises(Problem) as refused:
            await self.tipcast.post("show", bad)
        self.assertEqual((refused.exception.status, refused.exception.errors[0]["pointer"]), (422, "/count"))

    async def test_a_batch_of_any_length_is_answered_in_order(self) -> None:
        bad: Any = {"user": {"id": "u"}}
        results = await self.tipcast.post_all("show", [*(gift(n) for n in range(200)), bad])
        self.assertEqual([r["index"] for r in results], list(range(201)))
        self.assertEqual({r["status"] for r in results[:200]}, {"accepted"})
        self.assertIn("error", results[200])

    async def test_a_gateway_that_is_away_for_a_while_is_waited_for(self) -> None:
        address = self.gateway.url.removeprefix("http://")
        self.gateway.kill()
        posting = asyncio.create_task(self.tipcast.post("show", gift(1)))
        await asyncio.sleep(0.2)
        self.assertFalse(posting.done())
        self.gateway.serve(address)
        self.assertEqual((await posting)["status"], "accepted")

    async def test_patience_ends(self) -> None:
        async with AsyncTipcast("http://127.0.0.1:9", patience=0.1) as nobody:
            with self.assertRaises(Unavailable):
                await nobody.post("show", gift(1))

    async def test_a_gift_whose_answer_was_lost_is_sent_again_with_the_id_of_the_error(self) -> None:
        nameless: Gift = {"user": {"id": "u", "name": "U"}, "gift": {"id": "r", "name": "R"}}
        lose = True

        async def lossy(request: httpx.Request) -> httpx.Response:
            headers = {"content-type": "application/json"}
            async with httpx.AsyncClient() as straight:
                answer = await straight.request(request.method, str(request.url), content=request.content, headers=headers)
            if lose:
                raise httpx.ReadError("the answer was lost")
            return httpx.Response(answer.status_code, json=answer.json())

        async with httpx.AsyncClient(transport=httpx.MockTransport(lossy)) as client:
            tipcast = AsyncTipcast(self.gateway.url, http=client, patience=0.1)
            with self.assertRaises(Unavailable) as lost:
                await tipcast.post("show", nameless)
            with self.assertRaises(Unavailable) as many:
                await tipcast.post_all("show", [nameless] * 130)
            lose = False
            id = lost.exception.id
            assert id
            self.assertIn(id, str(lost.exception))
            again = await tipcast.post("show", {**nameless, "id": id})
            self.assertTrue(again["duplicate"])
            self.assertEqual(again["id"], id)
            self.assertEqual(len(set(many.exception.ids)), 130)
            await tipcast.post_all("show", [{**nameless, "id": id} for id in many.exception.ids])
        entries = await self.tipcast.claim("show", "game", "c", max=1_000, wait_ms=0)
        self.assertEqual(len(entries), 131)

    async def test_a_consumer_outlives_an_outage_longer_than_its_patience_and_says_so(self) -> None:
        address = self.gateway.url.removeprefix("http://")
        got: asyncio.Queue[str] = asyncio.Queue()

        async def handle(entry: Entry) -> None:
            await got.put(entry["gift"]["id"])

        async with AsyncTipcast(self.gateway.url, patience=0.2) as hasty:
            consuming = asyncio.create_task(hasty.consume("show", "game", handle))
            await self.tipcast.post("show", gift(1))
            self.assertEqual(await got.get(), "g1")
            with self.assertLogs("tipcast", "WARNING") as logged:
                self.gateway.kill()
                while not logged.output:
                    await asyncio.sleep(0.01)
            self.assertFalse(consuming.done())
            self.gateway.serve(address)
            await self.tipcast.post("show", gift(2))
            while await got.get() != "g2":
                pass
            consuming.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await consuming

    async def test_entries_without_a_gift_or_with_only_its_id_are_handed_out_like_all(self) -> None:
        await self.tipcast.call("PATCH", "/feeds/show/policy", {"totals": ["session"], "points": {"EUR": 1}})
        goal = {"title": "Mic", "period": "session", "by": "points", "target": 100}
        await self.tipcast.call("PUT", "/feeds/show/goals/mic", goal)
        await self.tipcast.post("show", {**gift(1), "value": {"amount": 100, "currency": "EUR"}})
        await self.tipcast.call("POST", "/feeds/show/gifts/g1/retract")
        got: list[tuple[str, str | None]] = []

        async def handle(entry: Entry) -> None:
            got.append((entry["type"], entry.get("gift", {}).get("id")))
            if len(got) == 3:
                raise asyncio.CancelledError

        with self.assertRaises(asyncio.CancelledError):
            await self.tipcast.consume("show", "game", handle)
        self.assertEqual(got, [("gift.accepted", "g1"), ("goal.reached", None), ("gift.retracted", "g1")])

    async def test_what_is_asked_to_come_again_is_sent_again_with_the_same_id(self) -> None:
        ids: list[str] = []

        def answer(request: httpx.Request) -> httpx.Response:
            import json

            ids.append(json.loads(request.content)["id"])
            if len(ids) < 3:
                return httpx.Response(503, headers={"Retry-After": "0"}, json={"type": "/problems/unavailable"})
            return httpx.Response(201, json={"status": "accepted", "id": ids[-1]})

        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            plain: Gift = {"user": {"id": "u", "name": "U"}, "gift": {"id": "r", "name": "R"}}
            await AsyncTipcast("http://gateway.example", http=client).post("show", plain)
        self.assertEqual((len(ids), len(set(ids))), (3, 1))

    async def consume(self, handle: Handler | dict[str, Handler], until: Callable[[], bool]) -> None:
        """Consumes until that is so, and everything is acknowledged."""
        consuming = asyncio.create_task(self.tipcast.consume("show", "game", handle))
        for _ in range(3_000):
            await asyncio.sleep(0.01)
            if consuming.done() or until() and await self.stands() == (0, 0):
                break
        consuming.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await consuming
        self.assertTrue(until())
        self.assertEqual(await self.stands(), (0, 0))

    async def stands(self) -> tuple[int, int]:
        try:
            group = await self.tipcast.call("GET", "/feeds/show/groups/game")
        except Problem:
            return (-1, -1)
        self.assertEqual(group["dead"], 0)
        return (group["lag"], group["pending"])

    async def test_what_failed_comes_again_alone_and_its_neighbours_go_on(self) -> None:
        for n in range(5):
            await self.tipcast.post("show", gift(n))
        got: list[str] = []

        async def handle(entry: Entry) -> None:
            if entry["gift"]["id"] == "g1" and entry["attempt"] == 1:
                raise RuntimeError("not now")
            got.append(entry["gift"]["id"])

        with self.assertLogs("tipcast", "ERROR") as logged:
            await self.consume(handle, lambda: len(got) == 5)
        self.assertEqual((got, len(logged.output)), (["g0", "g2", "g3", "g4", "g1"], 1))

    async def test_a_backend_that_is_away_for_a_while_loses_nothing_and_kills_nothing(self) -> None:
        for n in range(40):
            await self.tipcast.post("show", gift(n))
        got: set[str] = set()
        tries = 0

        async def handle(entry: Entry) -> None:
            nonlocal tries
            tries += 1
            if tries < 6:
                raise ConnectionError("no database")
            got.add(entry["gift"]["id"])

        with self.assertLogs("tipcast", "ERROR") as logged:
            await self.consume(handle, lambda: len(got) == 40)
        self.assertEqual(len(logged.output), 5)

    async def test_entries_go_to_the_function_of_their_type_and_others_are_acknowledged(self) -> None:
        await self.tipcast.call("PUT", "/feeds/show/drops/rocket", {"gift": {"id": "r", "name": "R"}, "total": 3})
        sold = await self.tipcast.sell("show", "rocket", {"user": {"id": "u", "name": "U"}, "pay": "now"})
        held = await self.tipcast.sell("show", "rocket", {"user": {"id": "v", "name": "V"}, "pay": "later"})
        freed = await self.tipcast.sell("show", "rocket", {"user": {"id": "w", "name": "W"}, "pay": "later"})
        self.assertEqual([it["status"] for it in (sold, held, freed)], ["sold", "held", "held"])
        await self.tipcast.confirm("show", held["hold"])
        await self.tipcast.release("show", freed["hold"])
        combo: Gift = {**gift(1), "combo": {"id": "run", "count": 3, "end": True}, "value": {"amount": 500, "currency": "EUR"}}
        await self.tipcast.post("show", combo)
        await self.tipcast.post("show", {**gift(2), "test": True})
        answer = await self.tipcast.refund("show", "g1", 100, "half of it")
        self.assertEqual((answer["status"], answer["refunded"]), ("refunded", 100))
        await self.tipcast.retract_gift("show", "g1", "chargeback")
        got: list[str] = []

        def named(name: str) -> Handler:
            async def handle(entry: Entry) -> None:
                got.append(f"{name} {entry['type']} {entry.get('reason', '')}".strip())

            return handle

        handlers = {"drop.sold": named("sale"), "gift.refunded": named("money"), "gift.retracted": named("money")}
        with self.assertLogs("tipcast", "INFO") as logged:
            await self.consume(handlers, lambda: len(got) == 4)
        wanted = ["sale drop.sold", "sale drop.sold", "money gift.refunded half of it", "money gift.retracted chargeback"]
        self.assertEqual(got, wanted)
        self.assertIn("gift.accepted", logged.output[0])
        summary = await self.tipcast.summary("show", from_="2020-01-01T00:00:00Z")
        self.assertEqual((summary["entries"], summary["values"]), (5, [{"currency": "EUR", "amount": 0}]))

    async def test_a_repeat_is_known_and_money_and_memory_are_one_transaction(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            database = sqlite3.connect(f"{folder}/game.db")
            self.addCleanup(database.close)
            database.execute("CREATE TABLE accounts (user PRIMARY KEY, coins INTEGER NOT NULL)")
            database.execute("INSERT INTO accounts VALUES ('u1', 0)")
            store = EventStore(database)
            store.create()
            store.create()
            entry: Entry = {"cursor": "17", "event_id": "show/17", "type": "gift.accepted", "feed": "show", "at": ""}

            def credit(entry: Entry, fails: bool = False) -> None:
                with store.once(entry) as cursor:
                    if cursor:
                        cursor.execute("UPDATE accounts SET coins = coins + 5")
                    if fails:
                        raise RuntimeError("killed")

            with self.assertRaises(RuntimeError):
                credit(entry, fails=True)
            for _ in range(3):
                credit(entry)
            credit({**entry, "event_id": "show/18"})
            self.assertEqual(database.execute("SELECT coins FROM accounts").fetchone(), (10,))
            other = sqlite3.connect(f"{folder}/game.db")
            self.addCleanup(other.close)
            self.assertEqual(other.execute("SELECT count(*) FROM tipcast_events").fetchone(), (2,))
            with self.assertRaises(ValueError):
                credit({**entry, "event_id": "show/1'); DROP TABLE accounts; --"})
            with self.assertRaises(ValueError):
                EventStore(sqlite3.connect(":memory:", isolation_level=None))

    async def test_a_database_that_goes_away_costs_no_entry_and_counts_none_twice(self) -> None:
        at = os.environ.get("TIPCAST_POSTGRES")
        if not at:
            self.skipTest("there is no PostgreSQL")
        import psycopg

        store = EventStore(lambda: psycopg.connect(at), "python_events")
        store.create()
        with psycopg.connect(at) as admin:
            admin.execute("CREATE TABLE python_accounts (coins INTEGER NOT NULL)")
            admin.execute("INSERT INTO python_accounts VALUES (0)")

        def credit(n: int, store: EventStore = store, ends: bool = False) -> None:
            with store.once({"cursor": str(n), "event_id": f"show/{n}", "type": "gift.accepted", "feed": "show", "at": ""}) as cursor:
                if cursor:
                    cursor.execute("UPDATE python_accounts SET coins = coins + 5")
                    if ends:
                        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        # Two at once have each entry once between them.
        def all_of_them() -> None:
            own = EventStore(lambda: psycopg.connect(at), "python_events")
            for n in range(50):
                credit(n, own)

        threads = [threading.Thread(target=all_of_them) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # Killed inside the transaction: nothing of it is there, and the next call has a connection.
        for _ in range(2):
            with self.assertRaises(psycopg.Error):
                credit(100, ends=True)
        for n in (100, 100, 101):
            credit(n)
        with psycopg.connect(at) as admin:
            self.assertEqual(admin.execute("SELECT coins FROM python_accounts").fetchone(), (52 * 5,))

    async def test_entries_are_acknowledged_as_they_are_walked_through(self) -> None:
        for n in range(3):
            await self.tipcast.post("show", gift(n))
        got = []
        async for entry in self.tipcast.entries("show", "game"):
            got.append(entry["gift"]["id"])
            if len(got) == 3:
                break
        group = await self.tipcast.call("GET", "/feeds/show/groups/game")
        self.assertEqual((got, group["pending"]), (["g0", "g1", "g2"], 1))

    async def test_a_delivery_is_read_and_a_forged_one_is_not(self) -> None:
        came: list[tuple[dict[str, str], bytes]] = []
        arrived = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                came.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()
                arrived.set()

            def log_message(self, *_: Any) -> None:
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        hook = {"url": f"http://127.0.0.1:{server.server_port}/", "secret": SECRET, "batch_ms": 1}
        await self.tipcast.call("PUT", "/feeds/show/webhooks/game", hook)
        await self.tipcast.post("show", gift(1))
        self.assertTrue(await asyncio.to_thread(arrived.wait, 20))
        headers, body = came[0]
        delivery = Webhook("whsec_" + "c29tZSBvdGhlciBzZWNyZXQgb2YgMjQgYnl0ZXM=", SECRET).read(headers, body)
        self.assertEqual((delivery["feed"], delivery["entries"][0]["gift"]["id"]), ("show", "g1"))
        stamp = int(next(v for k, v in headers.items() if k.lower() == "webhook-timestamp"))
        others = {**{name.lower(): value for name, value in headers.items()}, "webhook-id": "another"}
        another = "whsec_" + "c29tZSBvdGhlciBzZWNyZXQgb2YgMjQgYnl0ZXM="
        forged: list[tuple[str, dict[str, str], bytes, float]] = [
            (SECRET, headers, body + b" ", stamp),
            (SECRET, others, body, stamp),
            (SECRET, headers, body, stamp + 301),
            (another, headers, body, stamp),
            (SECRET, {}, body, stamp),
        ]
        for secret, with_headers, with_body, at in forged:
            with self.assertRaises(BadSignature):
                Webhook(secret).read(with_headers, with_body, now=at)
        # Samples that an operator sends are signed like the others, and nobody paid for them.
        back = await self.tipcast.call("POST", "/feeds/show/webhooks/game/test")
        trial = Webhook(SECRET).read(*came[-1])
        self.assertEqual((back["status"], back["entries"] > 0, trial["test"], trial["entries"]), (204, True, True, []))

    async def test_plain_functions_handle_entries_in_a_thread_and_do_not_hold_the_loop_up(self) -> None:
        for n in range(20):
            await self.tipcast.post("show", gift(n))
        got: list[str] = []
        loop_thread = threading.get_ident()
        # Opened by the first call, of the thread in which all are.
        store = EventStore(lambda: sqlite3.connect(":memory:"))

        def handle(entry: Entry) -> None:
            assert threading.get_ident() != loop_thread
            if not got:
                store.create()
            with store.once(entry) as cursor:
                assert cursor
                got.append(entry["gift"]["id"])

        await self.consume(handle, lambda: len(got) == 20)
        self.assertEqual(got, [f"g{n}" for n in range(20)])

    async def test_a_connection_of_another_thread_ends_the_consumer_and_kills_no_entry(self) -> None:
        await self.tipcast.post("show", gift(1))
        store = EventStore(sqlite3.connect(":memory:"))
        store.create()

        def handle(entry: Entry) -> None:
            with store.once(entry):
                pass

        with self.assertRaisesRegex(RuntimeError, "check_same_thread"):
            await self.tipcast.consume("show", "game", handle)
        group = await self.tipcast.call("GET", "/feeds/show/groups/game")
        self.assertEqual((group["dead"], group["pending"]), (0, 1))


class WithoutALoop(unittest.TestCase):
    def setUp(self) -> None:
        self.gateway = Gateway()
        self.addCleanup(self.gateway.stop)
        self.tipcast = Tipcast(self.gateway.url)
        self.addCleanup(self.tipcast.close)

    def test_many_threads_post_over_one_client(self) -> None:
        answers: list[str] = []

        def post(start: int) -> None:
            for n in range(start, start + 10):
                answers.append(self.tipcast.post("show", gift(n))["status"])

        threads = [threading.Thread(target=post, args=[10 * n]) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(answers), set(answers)), (80, {"accepted"}))
        bad: Any = {**gift(1), "count": 0}
        with self.assertRaises(Problem) as refused:
            self.tipcast.post("show", bad)
        self.assertEqual(refused.exception.status, 422)

    def test_money_is_credited_once_in_the_thread_that_consumes_until_it_is_closed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            store = EventStore(f"{folder}/game.db")
            store.create()
            with sqlite3.connect(f"{folder}/game.db") as database:
                database.execute("CREATE TABLE accounts (coins INTEGER NOT NULL)")
                database.execute("INSERT INTO accounts VALUES (0)")
            self.tipcast.post_all("show", [gift(n) for n in range(100)])
            threads: set[int] = set()
            tries = 0

            def credit(entry: Entry) -> None:
                nonlocal tries
                tries += 1
                threads.add(threading.get_ident())
                with store.once(entry) as cursor:
                    if cursor:
                        cursor.execute("UPDATE accounts SET coins = coins + 5")
                    if tries in (3, 40):
                        raise RuntimeError("killed")

            def consume() -> None:
                threads_before = threading.get_ident()
                self.tipcast.consume("show", "game", credit)
                self.assertEqual(threads, {threads_before})

            with self.assertLogs("tipcast", "ERROR"):
                consuming = threading.Thread(target=consume)
                consuming.start()
                with Tipcast(self.gateway.url) as other:
                    for _ in range(2_000):
                        try:
                            group = other.call("GET", "/feeds/show/groups/game")
                        except Problem:
                            continue
                        if (group["lag"], group["pending"]) == (0, 0) and tries >= 102:
                            break
                        threading.Event().wait(0.01)
                self.tipcast.close()
                consuming.join(20)
            self.assertFalse(consuming.is_alive())
            with sqlite3.connect(f"{folder}/game.db") as database:
                self.assertEqual(database.execute("SELECT coins FROM accounts").fetchone(), (500,))
            # It opens again.
            self.assertTrue(self.tipcast.post("show", gift(1))["duplicate"])

    def test_entries_are_walked_through_and_awaited_functions_are_called_too(self) -> None:
        self.tipcast.post_all("show", [gift(n) for n in range(3)])
        walk = self.tipcast.entries("show", "game")
        self.assertEqual([next(walk)["gift"]["id"] for _ in range(3)], ["g0", "g1", "g2"])
        got: list[str] = []

        async def handle(entry: Entry) -> None:
            await asyncio.sleep(0)
            got.append(entry["gift"]["id"])
            if len(got) == 3:
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.tipcast.consume("show", "other", handle)
        group = self.tipcast.call("GET", "/feeds/show/groups/other")
        self.assertEqual((got, group["dead"]), (["g0", "g1", "g2"], 0))

    @unittest.skipUnless(hasattr(os, "fork"), "there is no fork")
    def test_a_process_that_was_forked_has_its_own_connections(self) -> None:
        self.tipcast.post("show", gift(1))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if self.tipcast.post("show", gift(2))["status"] == "accepted" else 1
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.tipcast.post("show", gift(3))["status"], "accepted")


if __name__ == "__main__":
    unittest.main()
