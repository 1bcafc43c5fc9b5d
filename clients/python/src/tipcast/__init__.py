"""Producers, report consumers and webhook receivers for a Tipcast gateway.

    async with Tipcast("https://gateway.example", key="tck_…") as tipcast:
        answer = await tipcast.post("demo", {"user": {"id": "u1", "name": "Mia"}, "gift": {"id": "rose", "name": "Rose"}})
"""

from ._client import Handler, Problem, Tipcast, Unavailable
from ._events import EventStore
from ._types import Claimed, Combo, Delivery, Delta, Entry, Gift, Named, Posted, Sale, User, Value
from ._webhooks import BadSignature, Webhook

__all__ = [
    "BadSignature", "Claimed", "Combo", "Delivery", "Delta", "Entry", "EventStore", "Gift", "Handler", "Named", "Posted",
    "Problem", "Sale", "Tipcast", "Unavailable", "User", "Value", "Webhook",
]
