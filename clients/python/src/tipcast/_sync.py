from __future__ import annotations

import asyncio
import inspect
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from . import _requests
from ._client import AsyncTipcast, Handler
from ._requests import Request, base_of
from ._types import Entry, Gift, Posted, Sale

_T = TypeVar("_T")


_P = ParamSpec("_P")


def _asking(make: Callable[_P, Request[_T]]) -> Callable[Concatenate[Tipcast, _P], _T]:
    """The method that sends what `make` says."""

    @wraps(make)
    def ask(self: Tipcast, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        request = make(*args, **kwargs)
        return request.read(self.call(request.method, request.path, request.body))

    return ask


class Tipcast:
    """`AsyncTipcast` for programs without an event loop: Flask, Django, scripts. Any thread may use it.

    Calls run on a loop in a thread of its own, which begins with the first call, and anew in a process that was forked.
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
        base_of(url)  # A wrong one is said here, not by the first call.
        self._make: Callable[[], AsyncTipcast] = lambda: AsyncTipcast(url, key, patience=patience, timeout=timeout, http=http)
        self._starting = threading.Lock()
        self._process = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: AsyncTipcast | None = None
        self._consuming: set[asyncio.Future[None]] = set()

    def __enter__(self) -> Tipcast:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends `consume` in other threads, and closes the connections. A later call opens them again."""
        with self._starting:
            loop, client, self._loop, self._client = self._loop, self._client, None, None
        if loop is None or client is None or self._process != os.getpid():
            return

        async def end() -> None:
            for task in list(self._consuming):
                task.cancel()
            await asyncio.gather(*self._consuming, return_exceptions=True)
            await client.close()

        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            loop.close()

    def _started(self) -> tuple[asyncio.AbstractEventLoop, AsyncTipcast]:
        with self._starting:
            # A thread is not there in a process that was forked, and neither are its connections.
            if self._loop is None or self._client is None or self._process != os.getpid():
                loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=loop.run_forever, name="tipcast", daemon=True)
                self._thread.start()

                async def make() -> AsyncTipcast:
                    return self._make()

                self._client = asyncio.run_coroutine_threadsafe(make(), loop).result()
                self._loop, self._process, self._consuming = loop, os.getpid(), set()
            return self._loop, self._client

    def _run(self, call: Callable[[AsyncTipcast], Coroutine[Any, Any, _T]]) -> _T:
        loop, client = self._started()
        running = asyncio.run_coroutine_threadsafe(call(client), loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    # Producing

    def post(self, feed: str, gift: Gift) -> Posted:
        """As `AsyncTipcast.post`."""
        return self._run(lambda it: it.post(feed, gift))

    def post_all(self, feed: str, gifts: Iterable[Gift]) -> list[dict[str, Any]]:
        """As `AsyncTipcast.post_all`."""
        return self._run(lambda it: it.post_all(feed, gifts))

    def sell(self, feed: str, drop: str, claim: Sale) -> dict[str, Any]:
        """As `AsyncTipcast.sell`."""
        return self._run(lambda it: it.sell(feed, drop, claim))

    # Reports

    def claim(
        self, feed: str, group: str, consumer: str, *, max: int = 128, wait_ms: int = 20_000, lease_ms: int = 30_000
    ) -> list[Entry]:
        """As `AsyncTipcast.claim`."""
        return self._run(lambda it: it.claim(feed, group, consumer, max=max, wait_ms=wait_ms, lease_ms=lease_ms))

    def consume(
        self,
        feed: str,
        group: str,
        handle: Handler | Mapping[str, Handler],
        *,
        consumer: str | None = None,
        max: int = 128,
        lease_ms: int = 30_000,
    ) -> None:
        """As `AsyncTipcast.consume`. Functions run in the thread that calls this, until `close`, or an interrupt there."""
        loop, client = self._started()
        jobs: queue.SimpleQueue[tuple[Handler, Entry, asyncio.Future[None]] | None] = queue.SimpleQueue()

        def relayed(handle: Handler) -> Handler:
            async def relay(entry: Entry) -> None:
                done: asyncio.Future[None] = loop.create_future()
                jobs.put((handle, entry, done))
                await done

            return relay

        handlers = handle if isinstance(handle, Mapping) else {"*": handle}

        async def run() -> None:
            task = asyncio.ensure_future(
                client.consume(
                    feed, group, {kind: relayed(it) for kind, it in handlers.items()}, consumer=consumer, max=max, lease_ms=lease_ms
                )
            )
            self._consuming.add(task)
            try:
                await task
            finally:
                self._consuming.discard(task)
                jobs.put(None)

        running = asyncio.run_coroutine_threadsafe(run(), loop)
        try:
            while (job := jobs.get()) is not None:
                _handle(loop, *job)
        except BaseException:
            # What was not handled is given back before this thread goes on.
            running.cancel()
            while jobs.get() is not None:
                pass
            raise
        # Closed by another thread: that is how it ends.
        with suppress(CancelledError):
            running.result()

    def entries(self, feed: str, group: str, *, consumer: str | None = None, max: int = 128) -> Iterator[Entry]:
        """As `consume`, for `for`: an entry is acknowledged when the next one is asked for."""
        return self._walk(lambda it: it.entries(feed, group, consumer=consumer, max=max))

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

    def scheduled(self, feed: str) -> Iterator[dict[str, Any]]:
        """As `AsyncTipcast.scheduled`."""
        return self._walk(lambda it: it.scheduled(feed))

    def ledger(
        self, feed: str, *, after: str | None = None, from_: str | None = None, to: str | None = None, type: str | None = None,
        user: str | None = None,
    ) -> Iterator[Entry]:
        """As `AsyncTipcast.ledger`."""
        return self._walk(lambda it: it.ledger(feed, after=after, from_=from_, to=to, type=type, user=user))

    def feeds(self, prefix: str = "") -> Iterator[dict[str, Any]]:
        """As `AsyncTipcast.feeds`."""
        return self._walk(lambda it: it.feeds(prefix))

    def _walk(self, items: Callable[[AsyncTipcast], AsyncIterator[_T]]) -> Iterator[_T]:
        _, client = self._started()
        walk = items(client)

        async def step() -> _T:
            return await walk.__anext__()

        with suppress(StopAsyncIteration):
            while True:
                yield self._run(lambda _: step())

    # Anything else

    def call(self, method: str, path: str, body: Any = None, *, timeout: float | None = None) -> Any:
        """As `AsyncTipcast.call`."""
        return self._run(lambda it: it.call(method, path, body, timeout=timeout))


def _handle(loop: asyncio.AbstractEventLoop, handle: Handler, entry: Entry, done: asyncio.Future[None]) -> None:
    """Calls the function here, and says there what came of it."""

    def say(error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    try:
        result = handle(entry)
        if inspect.isawaitable(result):

            async def wait() -> None:
                await result

            asyncio.run(wait())
    except Exception as error:
        loop.call_soon_threadsafe(say, error)
    else:
        loop.call_soon_threadsafe(say, None)
