"""Every method that only asks and answers, with and without an event loop; and the samples of the README."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.server
import importlib
import json
import pathlib
import re
import threading
import time
import unittest
from typing import Any

from tipcast import AsyncTipcast, Problem, Tipcast, _requests

from test_tipcast import SECRET, Gateway, gift

README = pathlib.Path(__file__).parent.parent / "README.md"


def sample(heading: str) -> str:
    """The first program behind a heading of the README."""
    found = re.search(rf"^## {heading}\n.*?^```python\n(.*?)^```", README.read_text(), re.S | re.M)
    assert found, heading
    return found[1]


class Methods(unittest.TestCase):
    def setUp(self) -> None:
        self.gateway = Gateway()
        self.addCleanup(self.gateway.stop)

    def test_each_does_what_it_says(self) -> None:
        with Tipcast(self.gateway.url) as tipcast:
            tipcast.patch_policy("show", {"totals": ["session"], "points": {"EUR": 1}})
            self.assertEqual(tipcast.policy("show")["totals"], ["session"])
            tipcast.put_goal("show", "mic", {"title": "Mic", "by": "EUR", "period": "session", "target": 1000})
            self.assertEqual((tipcast.goal("show", "mic")["value"], len(tipcast.goals("show"))), (0, 1))
            tipcast.session("show", "friday")
            tipcast.post("show", {**gift(1), "value": {"amount": 500, "currency": "EUR"}})
            self.assertEqual(tipcast.refund("show", "g1", 200, "late")["status"], "refunded")
            self.assertEqual(tipcast.leaders("show", period="session", by="EUR")["leaders"][0]["score"], 300)
            self.assertEqual(tipcast.totals("show")["feed"], "show")
            self.assertEqual([it["type"] for it in tipcast.story("show", "g1")["entries"]], ["gift.accepted", "gift.refunded"])
            tipcast.retract_gift("show", "g1", "mistake")
            tipcast.retract("show", tipcast.post("show", gift(2))["row"])
            tipcast.post("show", gift(3))
            tipcast.retract_user("show", "u3")
            self.assertEqual(tipcast.feed("show")["rows"], [])
            self.assertEqual(len(list(tipcast.ledger("show", type="gift.retracted"))), 3)
            self.assertEqual(tipcast.summary("show", from_="2020-01-01T00:00:00Z")["values"], [{"amount": 0, "currency": "EUR"}])

            tipcast.post("show", {**gift(4), "delay_ms": 600_000})
            self.assertEqual([it["id"] for it in tipcast.scheduled("show")], ["g4"])
            tipcast.cancel("show", "g4")
            with self.assertRaises(Problem) as gone:
                tipcast.cancel("show", "g1")
            self.assertIn(gone.exception.status, (404, 409))

            crown = {"id": "crown", "name": "Crown"}
            tipcast.put_drop("show", "crown", {"total": 3, "per_user": 3, "gift": crown, "value": {"amount": 900, "currency": "EUR"}})  # type: ignore[typeddict-item]
            mia = {"id": "u1", "name": "Mia"}
            tipcast.sell("show", "crown", {"id": "s1", "user": mia, "pay": "now"})  # type: ignore[typeddict-item]
            held = tipcast.sell("show", "crown", {"id": "s2", "user": mia, "pay": "later"})  # type: ignore[typeddict-item]
            self.assertEqual(len(tipcast.holds("show", "u1")), 1)
            self.assertEqual(tipcast.confirm("show", held["hold"])["status"], "sold")
            tipcast.release("show", tipcast.sell("show", "crown", {"user": mia, "pay": "later"})["hold"])  # type: ignore[typeddict-item]
            tipcast.refund_sale("show", "crown", "s1", 100)
            tipcast.retract_sale("show", "crown", "s2")
            self.assertEqual(tipcast.sale("show", "crown", "s1")["refunded"], 100)
            self.assertEqual((tipcast.drop("show", "crown")["total"], len(tipcast.drops("show"))), (3, 1))

            tipcast.patch_policy("show", {"review": "messages"})
            tipcast.post("show", {**gift(5), "message": "hi"})
            self.assertEqual([it["id"] for it in tipcast.review("show")], ["g5"])
            tipcast.decide("show", "g5", "approve")
            tipcast.block("show", "troll", retract=True)
            self.assertEqual([it["user"] for it in tipcast.blocks("show")], ["troll"])
            tipcast.unblock("show", "troll")
            tipcast.control("show", "pause")
            self.assertEqual(tipcast.presence("show")["watchers"], 0)
            tipcast.delete_goal("show", "mic")
            tipcast.put_policy("show", {"capacity": 3})
            tipcast.revoke("ann")

            tipcast.put_webhook("show", "game", {"url": "http://127.0.0.1:9/", "secret": SECRET})
            self.assertEqual((tipcast.webhook("show", "game")["state"], len(tipcast.webhooks("show"))), ("active", 1))
            tipcast.delete_webhook("show", "game")
            one, two = tipcast.claim("show", "g", "c", max=2)
            self.assertEqual((tipcast.ack("show", "g", [one["cursor"]]), tipcast.nack("show", "g", [two["cursor"]])), (1, 1))
            self.assertEqual((tipcast.group("show", "g")["pending"], len(tipcast.groups("show"))), (1, 1))
            self.assertEqual(tipcast.seek("show", "g", cursor=one["cursor"]), one["cursor"])
            self.assertEqual((tipcast.dead_letters("show", "g"), tipcast.replay("show", "g")), ([], 0))
            tipcast.delete_group("show", "g")
            deadline = time.monotonic() + 20
            while [it["feed"] for it in tipcast.feeds("sh")] != ["show"]:
                self.assertLess(time.monotonic(), deadline)

    def test_there_are_the_same_with_and_without_a_loop(self) -> None:
        made = {name for name, it in vars(_requests).items() if callable(it) and getattr(it, "__annotations__", {}).get("return", "").startswith("Request[")}
        public = {name for name in made if not name.startswith("_")}
        for kind in (Tipcast, AsyncTipcast):
            self.assertEqual({name for name in public if not hasattr(kind, name)}, set(), kind)
            self.assertEqual({name for name in public if not getattr(kind, name).__doc__}, set())

        async def walk() -> list[str]:
            async with AsyncTipcast(self.gateway.url) as tipcast:
                await tipcast.post_all("show", [gift(n) for n in range(3)])
                await tipcast.block("show", "troll")
                return [entry["gift"]["id"] async for entry in tipcast.ledger("show")]

        self.assertEqual(asyncio.run(walk()), ["g0", "g1", "g2"])


class Frameworks(unittest.TestCase):
    """The README's programs, with the gateway's address and a secret of the test's."""

    def setUp(self) -> None:
        self.gateway = Gateway()
        self.addCleanup(self.gateway.stop)

    def module(self, name: str) -> Any:
        try:
            return importlib.import_module(name)
        except ImportError:
            self.skipTest(f"{name} is not installed")

    def run_sample(self, heading: str) -> dict[str, Any]:
        program = sample(heading).replace("https://gateway.example", self.gateway.url).replace(', key="tck_…"', "").replace("whsec_…", SECRET)
        world: dict[str, Any] = {"__name__": "sample"}
        exec(compile(program, f"README: {heading}", "exec"), world)
        return world

    def delivery(self, forged: bool = False) -> tuple[dict[str, str], bytes]:
        body = json.dumps({"type": "entries", "feed": "demo", "batch": "1", "entries": [{"event_id": "demo/1", "delta": {"count": 3}}]}).encode()
        stamp = str(int(time.time()))
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        signature = base64.b64encode(hmac.digest(b"x" if forged else key, f"msg_1.{stamp}.".encode() + body, hashlib.sha256)).decode()
        return {"webhook-id": "msg_1", "webhook-timestamp": stamp, "webhook-signature": f"v1,{signature}", "content-type": "application/json"}, body

    def gifts(self) -> int:
        with Tipcast(self.gateway.url) as tipcast:
            return len(list(tipcast.ledger("demo")))

    def test_flask(self) -> None:
        self.module("flask")
        world = self.run_sample("In Flask")
        client = world["app"].test_client()
        self.assertEqual(client.post("/gifts", json=gift(1)).get_json()["status"], "accepted")
        headers, body = self.delivery()
        self.assertEqual(client.post("/hook", data=body, headers=headers).status_code, 204)
        headers, body = self.delivery(forged=True)
        self.assertEqual(client.post("/hook", data=body, headers=headers).status_code, 401)
        # Every request of a threaded server, not only the first.
        answers: list[int] = []
        threads = [threading.Thread(target=lambda n=n: answers.append(world["app"].test_client().post("/gifts", json=gift(n)).status_code)) for n in range(2, 10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((set(answers), self.gifts()), ({200}, 9))
        world["tipcast"].close()

    def test_django(self) -> None:
        django = self.module("django")
        world = self.run_sample("In Django")
        self.module("django.conf").settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="x")
        django.setup()
        globals()["urlpatterns"] = world["urlpatterns"]
        client = self.module("django.test").Client()
        self.assertEqual(client.post("/gifts", gift(1), content_type="application/json").json()["status"], "accepted")
        headers, body = self.delivery()
        self.assertEqual(client.generic("POST", "/hook", body, **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}).status_code, 204)
        headers, body = self.delivery(forged=True)
        self.assertEqual(client.generic("POST", "/hook", body, **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}).status_code, 401)
        self.assertEqual(self.gifts(), 1)
        world["tipcast"].close()

    def test_fastapi(self) -> None:
        self.module("fastapi")
        world = self.run_sample("In FastAPI")
        with self.module("fastapi.testclient").TestClient(world["app"]) as client:
            for n in range(1, 4):
                self.assertEqual(client.post("/gifts", json=gift(n)).json()["status"], "accepted")
            headers, body = self.delivery()
            self.assertEqual(client.post("/hook", content=body, headers=headers).status_code, 204)
            headers, body = self.delivery(forged=True)
            self.assertEqual(client.post("/hook", content=body, headers=headers).status_code, 401)
        self.assertEqual(self.gifts(), 3)


class Mistakes(unittest.TestCase):
    def test_a_wrong_address_is_said_at_once(self) -> None:
        for kind in (Tipcast, AsyncTipcast):
            with self.assertRaisesRegex(ValueError, "https://"):
                kind("gateway.example")

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(301 if self.path.endswith("moved") else 200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", "6")
                self.end_headers()
                self.wfile.write(b"<html>")

            def log_message(self, *_: Any) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            with Tipcast(f"http://127.0.0.1:{server.server_port}") as tipcast:
                for feed in ("show", "moved"):
                    with self.assertRaisesRegex(Problem, "no Tipcast gateway.*text/html"):
                        tipcast.feed(feed)
            server.shutdown()
