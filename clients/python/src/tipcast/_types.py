"""The shapes of the API. A later gateway may send more fields than stand here."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class _User(TypedDict):
    id: str
    name: str


class User(_User, total=False):
    avatar: str
    anonymous: bool


class _Named(TypedDict):
    id: str
    name: str


class Named(_Named, total=False):
    """A kind of gift."""

    icon: str


class Value(TypedDict):
    """`amount` in minor units of `currency`, never a float."""

    amount: int
    currency: str


class _Gift(TypedDict):
    user: User
    gift: Named


class _Combo(TypedDict):
    id: str
    count: int


class Combo(_Combo, total=False):
    """A run of gifts; `count` is cumulative, and `end` says that it is the last frame."""

    end: bool


class _Sale(TypedDict):
    user: User
    pay: Literal["now", "later"]


class Sale(_Sale, total=False):
    """Units of a drop that somebody wants. Without `id` the client makes one, so that a retry is not a second sale."""

    id: str
    count: int
    message: str


class Gift(_Gift, total=False):
    """One gift as a producer sends it. Without `id` the client makes one, so that a retry is not a second gift."""

    id: str
    count: int
    value: Value
    combo: Combo
    message: str
    tier: int
    occurred_at: str
    deliver_at: str
    delay_ms: int
    test: bool
    meta: dict[str, Any]


class _Posted(TypedDict):
    id: str
    status: Literal["accepted", "merged", "suppressed", "scheduled", "in_review"]


class Posted(_Posted, total=False):
    """What became of a gift. `duplicate` says that the same id had come before: this is the first answer again."""

    epoch: str
    seq: int
    row: str
    count: int
    deliver_at: str
    duplicate: bool


class _Delta(TypedDict):
    count: int


class Delta(_Delta, total=False):
    """By how much an entry changes what was given: negative where that was taken back."""

    value: Value


class _Entry(TypedDict):
    cursor: str
    event_id: str
    type: str
    feed: str
    at: str


class Entry(_Entry, total=False):
    """One entry of a feed's ledger. `event_id` is the key to know a repeat by."""

    attempt: int
    seq: int
    row: str
    drop: str
    hold: str
    delta: Delta
    reason: str
    gift: dict[str, Any]
    goal: dict[str, Any]
    lost: dict[str, Any]


class Claimed(TypedDict):
    entries: list[Entry]


class _Delivery(TypedDict):
    type: str
    feed: str
    batch: str
    entries: list[dict[str, Any]]


class Delivery(_Delivery, total=False):
    """The body of a webhook's delivery."""

    test: bool


class _Goal(TypedDict):
    title: str
    by: str
    period: Literal["all", "session", "day", "week", "month"]
    target: int


class GoalSpec(_Goal):
    """`by` is points, units or a currency; `target` counts those."""


class _GoalStands(_Goal):
    goal: str
    value: int


class Goal(_GoalStands, total=False):
    reached_at: str


class _DropSpec(TypedDict):
    total: int
    gift: Named


class DropSpec(_DropSpec, total=False):
    """What is sold, and how many of it; `value` is the price of one."""

    value: Value
    per_user: int
    max_holds_per_user: int
    hold_ttl_ms: int
    opens_at: str
    closes_at: str


class Drop(DropSpec):
    drop: str
    state: Literal["pending", "open", "sold_out", "closed"]
    free: int
    held: int
    sold: int


class _GroupState(TypedDict):
    lag: int
    pending: int
    oldest_ms: int
    dead: int


class GroupState(_GroupState, total=False):
    """How far a group is: `lag` counts what it was not handed, `pending` what it has not acknowledged."""

    group: str
    lost: int


class Waiting(TypedDict):
    """A gift that waits for a decision, which is made by itself at `expires_at`."""

    id: str
    at: str
    expires_at: str
    gift: Gift


class _WebhookSpec(TypedDict):
    url: str
    secret: str


class WebhookSpec(_WebhookSpec, total=False):
    batch_max: int
    batch_ms: int
    max_age_ms: int
    delivery: Literal["at_least_once", "best_effort"]
    types: list[str]
    headers: dict[str, str]
