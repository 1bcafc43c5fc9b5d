"""Producers, report consumers and webhook receivers for a Tipcast gateway.

    with Tipcast("https://gateway.example", key="tck_…") as tipcast:
        answer = tipcast.post("demo", {"user": {"id": "u1", "name": "Mia"}, "gift": {"id": "rose", "name": "Rose"}})

`AsyncTipcast` has the same methods for programs with an event loop.
"""

from ._client import AsyncTipcast, Handler, Problem, Unavailable
from ._events import EventStore
from ._sync import Tipcast
from ._types import Claimed, Combo, Delivery, Delta, Entry, Gift, Named, Posted, Sale, User, Value
from ._webhooks import BadSignature, Webhook

__all__ = [
    "AsyncTipcast", "BadSignature", "Claimed", "Combo", "Delivery", "Delta", "Entry", "EventStore", "Gift", "Handler", "Named", "Posted",
    "Problem", "Sale", "Tipcast", "Unavailable", "User", "Value", "Webhook",
]
