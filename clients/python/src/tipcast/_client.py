from __future__ import annotations

import asyncio
import builtins
import inspect
import logging
import random
import sqlite3
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import httpx

from . import _requests
from ._requests import Request, base_of, feed_path, query
from ._types import Claimed, Entry, Gift, Posted, Sale

#: Ceilings of the back-off in seconds: the first, and the most.
_FIRST, _MOST = 0.25, 10.0
_AGAIN = {408, 425, 429, 500, 502, 503, 504}

_log = logging.getLogger("tipcast")

#: Handles an entry; the entry is acknowledged when it returns. A plain function, or one that is awaited.
Handler = Callable[[Entry], Awaitable[None]] | Callable[[Entry], None]


class _Failed(Exception):
    #: The ids of the gifts that were sent, in their order, also those that the client made. To send them again, give
    #: each gift its id: what was taken already is not taken twice.
    ids: list[str] = []

    def __str__(self) -> str:
        about = super().__str__()
        if not self.ids:
            return about
        more = f" and {len(self.ids) - 1} more" if len(self.ids) > 1 else ""
        return f"{about} (gift id {self.ids[0]}{more})"

    @property
    def id(self) -> str | None:
        """The id of the gift that was sent, where it was one."""
        return self.ids[0] if len(self.ids) == 1 else None


class Problem(_Failed):
    """A refusal (RFC 9457). Sending the same again is of no use."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status = status
        self.type: str = body.get("type", "about:blank")
        self.detail: str = body.get("detail", "")
        self.errors: list[dict[str, str]] = body.get("errors", [])
        self.body = body
        where = "".join(f"; {e.get('pointer')}: {e.get('detail')}" for e in self.errors)
        super().__init__(f"{status} {self.type}: {self.detail}{where}")


class Unavailable(_Failed):
    """No answer after the last retry. Nothing is half-written: the same call, with the same `ids`, is safe later."""


_P = ParamSpec("_P")
_T = TypeVar("_T")


def _asking(make: Callable[_P, Request[_T]]) -> Callable[Concatenate[AsyncTipcast, _P], Coroutine[Any, Any, _T]]:
    """The method that sends what `make` says."""

    @wraps(make)
    async def ask(self: AsyncTipcast, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        request = make(*args, **kwargs)
        return request.read(await self.call(request.method, request.path, request.body))

    return ask


class AsyncTipcast:
    """A gateway, asked over one pool of connections. Calls are retried with the same id for at most `patience` seconds.

    One is of one event loop. `Tipcast` is the same for programs without one.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        patience: float = 60.0,
        timeout: float = 10.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._base = base_of(url)
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._patience, self._timeout = patience, timeout
        self._own = http is None
        self._http = http or httpx.AsyncClient()

    async def __aenter__(self) -> AsyncTipcast:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        if self._own:
            await self._http.aclose()

    # Producing

    async def post(self, feed: str, gift: Gift) -> Posted:
        """Sends one gift, once, however often it has to be sent. An exception has its `id`, also one that was made here."""
        named = _with_id(gift)
        try:
            return cast(Posted, await self.call("POST", feed_path(feed, "gifts"), named))
        except _Failed as error:
            error.ids = [named["id"]]
            raise

    async def post_all(self, feed: str, gifts: Iterable[Gift]) -> list[dict[str, Any]]:
        """Sends many, in batches of 128. Answers one result for each, in order; one that was refused has `error`.

        An exception has the `ids` of all of them, those of batches that went well too.
        """
        all_of_them, results = [_with_id(gift) for gift in gifts], []
        try:
            for start in range(0, len(all_of_them), 128):
                body = {"gifts": all_of_them[start : start + 128]}
                answer = await self.call("POST", feed_path(feed, "gifts", "batch"), body)
                results += [{**result, "index": start + result["index"]} for result in answer["results"]]
        except _Failed as error:
            error.ids = [gift["id"] for gift in all_of_them]
            raise
        return results

    async def sell(self, feed: str, drop: str, claim: Sale) -> dict[str, Any]:
        """Claims units of a drop: sold at once with `"pay": "now"`, held with `"later"`. An exception has the claim's `id`."""
        named: dict[str, Any] = {"id": uuid.uuid4().hex, **claim}
        try:
            return cast(dict[str, Any], await self.call("POST", feed_path(feed, "drops", drop, "claims"), named))
        except _Failed as error:
            error.ids = [named["id"]]
            raise

    # Reports

    async def claim(
        self, feed: str, group: str, consumer: str, *, max: int = 128, wait_ms: int = 20_000, lease_ms: int = 30_000
    ) -> list[Entry]:
        body = {"consumer": consumer, "max": max, "wait_ms": wait_ms, "lease_ms": lease_ms}
        path = feed_path(feed, "groups", group, "claim")
        return cast(Claimed, await self.call("POST", path, body, timeout=wait_ms / 1000 + self._timeout))["entries"]

    async def consume(
        self,
        feed: str,
        group: str,
        handle: Handler | Mapping[str, Handler],
        *,
        consumer: str | None = None,
        max: int = 128,
        lease_ms: int = 30_000,
    ) -> None:
        """Hands every entry to `handle`, at least once, until the task is cancelled.

        `handle` is one function, or functions by type: `{"gift.accepted": …, "drop.sold": …, "*": …}`. A type without a
        function, and without `"*"`, is logged and acknowledged: new types may come at any time. A plain function runs in a
        thread, one entry after the other, so that a database does not hold the loop up.

        What a function returned from is acknowledged. An entry whose function raises is logged, given back alone after a
        pause that grows with its attempts, and comes again; its neighbours go on. Where nothing works any more, because your
        database is away, entries are claimed one by one with growing pauses, up to a minute. The gateway makes an entry a
        dead letter after its 16th attempt. Outages of the gateway, however long, are waited out. All of this is logged as
        `tipcast`. A `Problem` is raised only where the first claim is refused.

        An entry may come twice (a function took longer than `lease_ms`, an acknowledgement was lost): know it by its
        `event_id`, as `EventStore` does. Not every entry has a gift or a delta.
        """
        handlers = handle if isinstance(handle, Mapping) else {"*": handle}
        name = consumer or f"python-{uuid.uuid4().hex[:12]}"
        # One for all entries: connections of SQLite are of the thread that opened them.
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tipcast-handler")
        try:
            await self._consume(feed, group, handlers, name, thread, max, lease_ms)
        finally:
            thread.shutdown(wait=False)

    async def _consume(
        self,
        feed: str,
        group: str,
        handlers: Mapping[str, Handler],
        name: str,
        thread: ThreadPoolExecutor,
        max: int,
        lease_ms: int,
    ) -> None:
        loop = asyncio.get_running_loop()
        # Entries that failed: when they are given back. And how many have failed since one was handled.
        later: list[tuple[float, str]] = []
        failures, has_claimed = 0, False
        while True:
            due = [cursor for at, cursor in later if at <= loop.time()]
            later = [(at, cursor) for at, cursor in later if cursor not in due]
            await self._settle(feed, group, [], due)
            wait = min([20.0, *(at - loop.time() for at, _ in later)])
            how = {"max": 1 if failures else max, "lease_ms": lease_ms, "wait_ms": int(1000 * builtins.max(wait, 0))}
            entries = await self._claim_again(feed, group, name, has_claimed, **how)
            has_claimed = True
            done: list[str] = []
            tried = 0
            try:
                for entry in entries:
                    # It is not this one's fault, it seems.
                    if failures >= 3 and tried:
                        break
                    if await _handled(handlers, entry, thread):
                        failures = 0
                        done.append(entry["cursor"])
                    else:
                        failures += 1
                        pause = min(2.0 ** (entry.get("attempt", 1) - 1), lease_ms / 2000)
                        later.append((loop.time() + pause, entry["cursor"]))
                    tried += 1
            except BaseException:
                rest = [entry["cursor"] for entry in entries[tried:]] + [cursor for _, cursor in later]
                await asyncio.shield(self._settle(feed, group, done, rest))
                raise
            await asyncio.shield(self._settle(feed, group, done, [entry["cursor"] for entry in entries[tried:]]))
            if failures:
                await asyncio.sleep(min(60.0, 0.5 * 2.0 ** min(failures, 10)) * random.uniform(0.5, 1))

    async def entries(self, feed: str, group: str, *, consumer: str | None = None, max: int = 128) -> AsyncIterator[Entry]:
        """As `consume`, for `async for`: an entry is acknowledged when the next one is asked for."""
        name = consumer or f"python-{uuid.uuid4().hex[:12]}"
        while True:
            for entry in await self._claim_again(feed, group, name, False, max=max):
                yield entry
                await self._settle(feed, group, [entry["cursor"]], [])

    async def _claim_again(self, feed: str, group: str, name: str, go_on: bool, **how: int) -> list[Entry]:
        """Claims until there is an answer, through outages of any length, and with `go_on` through refusals too."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        while True:
            try:
                return await self.claim(feed, group, name, **how)
            except Unavailable as error:
                about: _Failed = error
            except Problem as error:
                if not go_on:
                    raise
                about = error
                await asyncio.sleep(random.uniform(_MOST / 2, _MOST))
            _log.warning("no entries of %s/%s for %.0f s, trying again: %s", feed, group, loop.time() - since, about)

    async def _settle(self, feed: str, group: str, done: list[str], not_done: list[str]) -> None:
        """Acknowledges and gives back. Where nobody answers, the leases run out and the entries come again."""
        try:
            if done:
                await self.ack(feed, group, done)
            if not_done:
                await self.nack(feed, group, not_done)
        except _Failed as error:
            _log.warning("%d entries of %s/%s will come again, their acknowledgement failed: %s", len(done), feed, group, error)

    # What only asks and answers

    story = _asking(_requests.story)
    cancel = _asking(_requests.cancel)
    retract = _asking(_requests.retract)
    retract_gift = _asking(_requests.retract_gift)
    retract_user = _asking(_requests.retract_user)
    refund = _asking(_requests.refund)
    drops = _asking(_requests.drops)
    drop = _asking(_requests.drop)
    put_drop = _asking(_requests.put_drop)
    sale = _asking(_requests.sale)
    refund_sale = _asking(_requests.refund_sale)
    retract_sale = _asking(_requests.retract_sale)
    holds = _asking(_requests.holds)
    confirm = _asking(_requests.confirm)
    release = _asking(_requests.release)
    ack = _asking(_requests.ack)
    nack = _asking(_requests.nack)
    seek = _asking(_requests.seek)
    group = _asking(_requests.group)
    groups = _asking(_requests.groups)
    delete_group = _asking(_requests.delete_group)
    dead_letters = _asking(_requests.dead_letters)
    replay = _asking(_requests.replay)
    summary = _asking(_requests.summary)
    put_webhook = _asking(_requests.put_webhook)
    webhook = _asking(_requests.webhook)
    webhooks = _asking(_requests.webhooks)
    delete_webhook = _asking(_requests.delete_webhook)
    feed = _asking(_requests.feed)
    policy = _asking(_requests.policy)
    patch_policy = _asking(_requests.patch_policy)
    put_policy = _asking(_requests.put_policy)
    session = _asking(_requests.session)
    review = _asking(_requests.review)
    decide = _asking(_requests.decide)
    blocks = _asking(_requests.blocks)
    block = _asking(_requests.block)
    unblock = _asking(_requests.unblock)
    control = _asking(_requests.control)
    goals = _asking(_requests.goals)
    goal = _asking(_requests.goal)
    put_goal = _asking(_requests.put_goal)
    delete_goal = _asking(_requests.delete_goal)
    totals = _asking(_requests.totals)
    leaders = _asking(_requests.leaders)
    presence = _asking(_requests.presence)
    revoke = _asking(_requests.revoke)

    # Lists that come in pages

    def scheduled(self, feed: str) -> AsyncIterator[dict[str, Any]]:
        """Gifts that wait to be shown."""
        return self._pages(feed_path(feed, "scheduled"), "scheduled")

    def ledger(
        self, feed: str, *, after: str | None = None, from_: str | None = None, to: str | None = None, type: str | None = None,
        user: str | None = None,
    ) -> AsyncIterator[Entry]:
        """Every entry that the filter lets through, oldest first. Reads and changes nothing."""
        return self._pages(feed_path(feed, "ledger"), "entries", after, from_=from_, to=to, type=type, user=user, limit=1000)

    def feeds(self, prefix: str = "") -> AsyncIterator[dict[str, Any]]:
        """Every feed that the key covers, by name."""
        return self._pages("/feeds", "feeds", prefix=prefix, limit=1000)

    async def _pages(self, path: str, field: str, after: str | None = None, **filter: Any) -> AsyncIterator[Any]:
        while True:
            page = await self.call("GET", path + query(**filter, after=after))
            for item in page[field]:
                yield item
            after = page.get("next")
            if after is None:
                return

    # Anything else

    async def call(self, method: str, path: str, body: Any = None, *, timeout: float | None = None) -> Any:
        """One request below `/v1`, retried while the gateway does not answer or asks to come again."""
        loop = asyncio.get_running_loop()
        until, tries = loop.time() + self._patience, 0
        while True:
            wait: float | None = None
            try:
                answer = await self._http.request(
                    method, self._base + path, json=body, headers=self._headers, timeout=timeout or self._timeout
                )
                if answer.status_code == 204:
                    return None
                if answer.status_code not in _AGAIN:
                    body = _object(answer)
                    if answer.is_success:
                        return body
                    raise Problem(answer.status_code, body)
                why = f"{answer.status_code} {answer.text[:200]}"
                after = answer.headers.get("Retry-After", "")
                wait = float(after) if after.isdigit() else None
            except httpx.TransportError as error:
                why = repr(error)
            ceiling = min(_MOST, _FIRST * 2**tries)
            pause = random.uniform(0, ceiling) if wait is None else wait + random.uniform(0, ceiling)
            tries += 1
            if loop.time() + pause > until:
                raise Unavailable(f"{method} {path}: {why} ({tries} tries)")
            await asyncio.sleep(pause)


async def _in_thread(thread: ThreadPoolExecutor, handle: Handler, entry: Entry) -> Any:
    """Calls a plain function in the thread. When the task is cancelled, it ends first: what it did is not undone."""
    running = asyncio.get_running_loop().run_in_executor(thread, handle, entry)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


async def _handled(handlers: Mapping[str, Handler], entry: Entry, thread: ThreadPoolExecutor) -> bool:
    """Whether the entry is done with."""
    kind = entry.get("type", "")
    handle = handlers.get(kind) or handlers.get("*")
    if handle is None:
        _log.info("nothing is done about %s (%s)", entry.get("event_id"), kind)
        return True
    try:
        if inspect.iscoroutinefunction(handle):
            await handle(entry)
        else:
            result = await _in_thread(thread, handle, entry)
            # A partial, or an object that is called, may give something to wait for.
            if inspect.isawaitable(result):
                await result
    except sqlite3.ProgrammingError as error:
        if "same thread" not in str(error):
            _log.exception("%s (%s) failed, attempt %s; it comes again", entry.get("event_id"), kind, entry.get("attempt"))
            return False
        # No entry is at fault, and none would ever be handled.
        raise RuntimeError(
            "plain functions run in a thread, and this SQLite connection is of another one: "
            'use EventStore("game.db"), or open the connection with check_same_thread=False'
        ) from error
    except Exception:
        _log.exception("%s (%s) failed, attempt %s; it comes again", entry.get("event_id"), kind, entry.get("attempt"))
        return False
    return True


def _with_id(gift: Gift) -> Gift:
    return gift if "id" in gift else {**gift, "id": uuid.uuid4().hex}


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if isinstance(body, dict):
        return body
    kind = answer.headers.get("Content-Type", "no type")
    detail = f"what answered at {answer.url} is no Tipcast gateway, it seems: {answer.status_code}, {kind}; is the address right?"
    if answer.status_code < 400:
        raise Problem(answer.status_code, {"detail": detail})
    return {"detail": detail}
