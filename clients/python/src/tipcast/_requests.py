"""Requests by name: what each method that only asks and answers sends. `AsyncTipcast` and `Tipcast` make their methods of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

from ._types import Drop, DropSpec, Goal, GoalSpec, GroupState, Waiting, WebhookSpec

_T = TypeVar("_T")
_Object = dict[str, Any]


@dataclass(frozen=True)
class Request(Generic[_T]):
    """`read` makes what a method gives of the answer."""

    method: str
    path: str
    body: Any
    read: Callable[[Any], _T]


def base_of(url: str) -> str:
    """What every path is behind. A `ValueError` for what is no address."""
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"{url!r} is no address of a gateway; it begins with https:// or http://")
    return url.rstrip("/") + "/v1"


def part(name: str) -> str:
    """One part of a path, or one value of a query."""
    return quote(name, safe="")


def feed_path(feed: str, *parts: str) -> str:
    return "/".join(["/feeds", *(part(it) for it in (feed, *parts))])


def query(**fields: Any) -> str:
    given = [f"{name.rstrip('_')}={part(str(value))}" for name, value in fields.items() if value is not None]
    return "?" + "&".join(given) if given else ""


def _ask(method: str, path: str, body: Any = None, *, field: str | None = None) -> Request[Any]:
    return Request(method, path, body, (lambda answer: answer[field]) if field else (lambda answer: answer))


def _do(method: str, path: str, body: Any = None) -> Request[None]:
    return Request(method, path, body, lambda _: None)


def _reason(reason: str | None) -> _Object | None:
    return None if reason is None else {"reason": reason}


# Gifts


def story(feed: str, gift: str) -> Request[_Object]:
    """What became of a gift: each of its entries, and how each reader stands."""
    return _ask("GET", feed_path(feed, "gifts") + query(id=gift))


def cancel(feed: str, gift: str) -> Request[None]:
    """Cancels a scheduled gift. A `Problem` with status 409 when it was shown already."""
    return _do("DELETE", feed_path(feed, "scheduled") + query(id=gift))


def retract(feed: str, row: str) -> Request[None]:
    """Takes a row back everywhere."""
    return _do("DELETE", feed_path(feed, "rows", row))


def retract_gift(feed: str, gift: str, reason: str | None = None) -> Request[None]:
    """Takes one gift back by its id."""
    return _do("POST", feed_path(feed, "gifts", "retract") + query(id=gift), _reason(reason))


def retract_user(feed: str, user: str) -> Request[_Object]:
    """Takes all rows of a user back."""
    return _ask("DELETE", feed_path(feed, "rows") + query(user=user))


def refund(feed: str, gift: str, refunded: int, reason: str | None = None) -> Request[_Object]:
    """Takes a part of a gift's value back. `refunded` is all that is refunded so far, in minor units: a repeat changes nothing."""
    return _ask("POST", feed_path(feed, "gifts", "refund") + query(id=gift), {"refunded": refunded} | (_reason(reason) or {}))


# Drops


def drops(feed: str) -> Request[list[Drop]]:
    """The drops of a feed."""
    return _ask("GET", feed_path(feed, "drops"), field="drops")


def drop(feed: str, drop: str) -> Request[Drop]:
    """One drop, and how much of it is left."""
    return _ask("GET", feed_path(feed, "drops", drop))


def put_drop(feed: str, drop: str, spec: DropSpec) -> Request[Drop]:
    """Defines or changes a drop."""
    return _ask("PUT", feed_path(feed, "drops", drop), spec)


def sale(feed: str, drop: str, claim: str) -> Request[_Object]:
    """What became of a claim."""
    return _ask("GET", feed_path(feed, "drops", drop, "claims") + query(id=claim))


def refund_sale(feed: str, drop: str, claim: str, refunded: int, reason: str | None = None) -> Request[_Object]:
    """Takes a part of what a sale cost back, as `refund` does of a gift."""
    body = {"refunded": refunded} | (_reason(reason) or {})
    return _ask("POST", feed_path(feed, "drops", drop, "claims", "refund") + query(id=claim), body)


def retract_sale(feed: str, drop: str, claim: str, reason: str | None = None) -> Request[_Object]:
    """Takes a sale back."""
    return _ask("POST", feed_path(feed, "drops", drop, "claims", "retract") + query(id=claim), _reason(reason))


def holds(feed: str, user: str) -> Request[list[_Object]]:
    """What a user holds and has not paid."""
    return _ask("GET", feed_path(feed, "users", "holds") + query(user=user), field="holds")


def confirm(feed: str, hold: str) -> Request[_Object]:
    """A hold was paid: its gift is shown."""
    return _ask("POST", feed_path(feed, "holds", hold, "confirm"))


def release(feed: str, hold: str) -> Request[None]:
    """Cancels a hold: its units are free again."""
    return _do("DELETE", feed_path(feed, "holds", hold))


# The ledger


def ack(feed: str, group: str, cursors: Sequence[str]) -> Request[int]:
    """How many of them this group had pending."""
    return _ask("POST", feed_path(feed, "groups", group, "ack"), {"cursors": list(cursors)}, field="acked")


def nack(feed: str, group: str, cursors: Sequence[str]) -> Request[int]:
    """Gives them to the next claimer."""
    return _ask("POST", feed_path(feed, "groups", group, "nack"), {"cursors": list(cursors)}, field="nacked")


def seek(
    feed: str, group: str, *, to: Literal["start", "now"] | None = None, cursor: str | None = None, at: str | None = None
) -> Request[str]:
    """Moves a group to one of these; answers the cursor of the entry that is next."""
    body = {name: value for name, value in {"to": to, "cursor": cursor, "at": at}.items() if value is not None}
    return _ask("POST", feed_path(feed, "groups", group, "seek"), body, field="cursor")


def group(feed: str, group: str) -> Request[GroupState]:
    """How far a group is."""
    return _ask("GET", feed_path(feed, "groups", group))


def groups(feed: str) -> Request[list[GroupState]]:
    """The groups of a feed."""
    return _ask("GET", feed_path(feed, "groups"), field="groups")


def delete_group(feed: str, group: str) -> Request[None]:
    """Forgets where a group was."""
    return _do("DELETE", feed_path(feed, "groups", group))


def dead_letters(feed: str, group: str) -> Request[list[_Object]]:
    """Entries that a group gave up on."""
    return _ask("GET", feed_path(feed, "groups", group, "dead"), field="dead")


def replay(feed: str, group: str, ids: Sequence[str] | None = None) -> Request[int]:
    """Hands dead letters out again, all or those with these ids; how many."""
    return _ask("POST", feed_path(feed, "groups", group, "dead", "replay"), {} if ids is None else {"ids": list(ids)}, field="replayed")


def summary(feed: str, *, from_: str | None = None, to: str | None = None) -> Request[_Object]:
    """What the deltas of a feed's ledger add up to, between two times."""
    return _ask("GET", feed_path(feed, "ledger", "summary") + query(from_=from_, to=to))


# Webhooks


def put_webhook(feed: str, webhook: str, spec: WebhookSpec) -> Request[_Object]:
    """Sets a webhook."""
    return _ask("PUT", feed_path(feed, "webhooks", webhook), spec)


def webhook(feed: str, webhook: str) -> Request[_Object]:
    """How a webhook stands, without its secret."""
    return _ask("GET", feed_path(feed, "webhooks", webhook))


def webhooks(feed: str) -> Request[list[_Object]]:
    """The webhooks of a feed."""
    return _ask("GET", feed_path(feed, "webhooks"), field="webhooks")


def delete_webhook(feed: str, webhook: str) -> Request[None]:
    """Deletes a webhook."""
    return _do("DELETE", feed_path(feed, "webhooks", webhook))


# What a host decides


def feed(feed: str) -> Request[_Object]:
    """The list as it is now."""
    return _ask("GET", feed_path(feed))


def policy(feed: str) -> Request[_Object]:
    """How a feed is set."""
    return _ask("GET", feed_path(feed, "policy"))


def patch_policy(feed: str, changes: _Object) -> Request[_Object]:
    """Changes some fields of a feed's policy."""
    return _ask("PATCH", feed_path(feed, "policy"), changes)


def put_policy(feed: str, policy: _Object) -> Request[_Object]:
    """Replaces a feed's policy: fields that are not there have their defaults."""
    return _ask("PUT", feed_path(feed, "policy"), policy)


def session(feed: str, id: str | None = None) -> Request[_Object]:
    """Begins a session: what is counted by session starts at zero."""
    return _ask("POST", feed_path(feed, "session"), {} if id is None else {"id": id})


def review(feed: str) -> Request[list[Waiting]]:
    """Gifts that wait for a decision."""
    return _ask("GET", feed_path(feed, "review"), field="review")


def decide(feed: str, gift: str, action: Literal["approve", "mask", "deny"]) -> Request[_Object]:
    """Decides about a gift that waits."""
    return _ask("POST", feed_path(feed, "review") + query(id=gift), {"action": action})


def blocks(feed: str) -> Request[list[_Object]]:
    """Users whose gifts are not shown."""
    return _ask("GET", feed_path(feed, "blocks"), field="blocks")


def block(feed: str, user: str, *, until: str | None = None, retract: bool = False) -> Request[_Object]:
    """Keeps a user's gifts from being shown; with `retract`, what is shown goes too."""
    body = {"retract": retract} | ({} if until is None else {"until": until})
    return _ask("PUT", feed_path(feed, "blocks") + query(user=user), body)


def unblock(feed: str, user: str) -> Request[None]:
    """Shows a user's gifts again."""
    return _do("DELETE", feed_path(feed, "blocks") + query(user=user))


def control(
    feed: str, action: Literal["pause", "resume", "skip", "mute", "unmute", "replay"], row: str | None = None
) -> Request[None]:
    """Controls overlays."""
    return _do("POST", feed_path(feed, "control"), {"action": action} | ({} if row is None else {"row": row}))


def goals(feed: str) -> Request[list[Goal]]:
    """The goals of a feed."""
    return _ask("GET", feed_path(feed, "goals"), field="goals")


def goal(feed: str, goal: str) -> Request[Goal]:
    """One goal, and how far it is."""
    return _ask("GET", feed_path(feed, "goals", goal))


def put_goal(feed: str, goal: str, spec: GoalSpec) -> Request[Goal]:
    """Defines or changes a goal."""
    return _ask("PUT", feed_path(feed, "goals", goal), spec)


def delete_goal(feed: str, goal: str) -> Request[None]:
    """Deletes a goal."""
    return _do("DELETE", feed_path(feed, "goals", goal))


def totals(feed: str, back: int | None = None) -> Request[_Object]:
    """What was counted; `back=1` is the run before the current one."""
    return _ask("GET", feed_path(feed, "totals") + query(back=back))


def leaders(
    feed: str, *, period: str | None = None, by: str | None = None, back: int | None = None, limit: int | None = None, user: str | None = None
) -> Request[_Object]:
    """A ranking of givers."""
    return _ask("GET", feed_path(feed, "leaders") + query(period=period, by=by, back=back, limit=limit, user=user))


def presence(feed: str) -> Request[_Object]:
    """How many watch."""
    return _ask("GET", feed_path(feed, "presence"))


def revoke(viewer: str, before: str | None = None) -> Request[None]:
    """Refuses a viewer's tokens that were made before now, or before a time."""
    return _do("POST", "/viewers/revoke" + query(sub=viewer), {} if before is None else {"before": before})

