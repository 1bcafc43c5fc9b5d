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
