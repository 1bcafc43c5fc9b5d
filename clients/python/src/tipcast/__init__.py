"""Producers, report consumers and webhook receivers for a Tipcast gateway.

    async with Tipcast("https://gateway.example", key="tck_…") as tipcast:
        answer = await tipcast.post("demo", {"user": {"id": "u1", "name": "Mia"}, "gift": {"id": "rose", "name": "Rose"}})
"""

from ._client import Problem, Tipcast, Unavailable
from ._types import Claimed, Delivery, Entry, Gift, Named, Posted, User, Value
from ._webhooks import BadSignature, Webhook

__all__ = [
    "BadSignature", "Claimed", "Delivery", "Entry", "Gift", "Named", "Posted", "Problem", "Tipcast", "Unavailable",
    "User", "Value", "Webhook",
]
