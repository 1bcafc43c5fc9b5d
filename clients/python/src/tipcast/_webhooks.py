from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import cast

from ._types import Delivery


class BadSignature(Exception):
    """Not from this gateway, or too old: answer 401 and do nothing."""


class Webhook:
    """Reads deliveries (Standard Webhooks). Give it every secret that may be in use, during a change the old one too.

    Deliveries are repeated until they are answered 2xx, in other batches too: know each entry by its `event_id`, as
    `EventStore` does.
    """

    def __init__(self, *secrets: str, tolerance: float = 300.0) -> None:
        if not secrets:
            raise ValueError("a webhook has at least one secret, `whsec_…`")
        self._keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in secrets]
        self._tolerance = tolerance

    def read(self, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> Delivery:
        """The delivery in a request; `body` as it came, before anything parsed it.

        One with `test` is an operator's trial of the webhook. Its entries are samples that nobody paid for: they are left out.
        """
        given = {name.lower(): value for name, value in headers.items()}
        try:
            name, stamp, signatures = (given[f"webhook-{part}"] for part in ("id", "timestamp", "signature"))
            age = abs((time.time() if now is None else now) - int(stamp))
        except (KeyError, ValueError) as error:
            raise BadSignature(f"the headers of a webhook are not there: {error}") from None
        if age > self._tolerance:
            raise BadSignature(f"its timestamp is {age:.0f} s away: it is old, or one of the two clocks is wrong")
        signed = f"{name}.{stamp}.".encode() + body
        wanted = [base64.b64encode(hmac.digest(key, signed, hashlib.sha256)) for key in self._keys]
        # The gateway sends one for each secret that holds; a stranger may send any number.
        came = [part[3:].encode() for part in signatures.split(" ") if part.startswith("v1,")][:8]
        # Each is compared, in the same time whatever they are.
        if not sum(hmac.compare_digest(one, other) for one in wanted for other in came):
            raise BadSignature("no signature fits: the secret is another one, or the body is not as it came")
        delivery = cast(Delivery, json.loads(body))
        if delivery.get("test"):
            delivery["entries"] = []
        return delivery
