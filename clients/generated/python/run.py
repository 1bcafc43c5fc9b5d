"""The calls of README.md with the client that openapi-generator makes for Python."""

import os

import tipcast_api
from tipcast_api.api import DropsApi, ProducerApi, ReportsApi, WatchingApi
from tipcast_api.exceptions import ApiException
from tipcast_api.models import (
    DropClaim, DropSpec, EntryCursors, Gift, GiftBatch, GiftKind, GroupClaim, Money, PolicyPatch, Problem, User,
)

client = tipcast_api.ApiClient(tipcast_api.Configuration(host=os.environ["TIPCAST_URL"]))
producer, drops, reports, watching = (api(client) for api in (ProducerApi, DropsApi, ReportsApi, WatchingApi))
FEED = "python"


def rose(user, **more):
    return Gift(user=User(id=user, name=user), gift=GiftKind(id="rose", name="Rose"), **more)


def check(what, *facts):
    assert all(facts), (what, facts)


first = producer.publish_gift(FEED, rose("ann", id="g-1", value=Money(amount=150, currency="EUR"), meta={"a": 1}))
check("post", first.status == "accepted", first.seq == 1, first.duplicate is None)
again = producer.publish_gift(FEED, rose("ann", id="g-1", value=Money(amount=150, currency="EUR"), meta={"a": 1}))
check("post again", again.duplicate, again.row == first.row)

batch = producer.publish_gift_batch(FEED, GiftBatch(gifts=[rose("bob", id="g-2"), rose("ann", id="g-1", test=True)]))
check("batch", batch.accepted == 1, batch.rejected == 1, batch.results[1].error.status == 422)

try:
    producer.publish_gift("not a feed", rose("ann"))
    raise AssertionError("a feed of that name")
except ApiException as refused:
    problem = Problem.from_json(refused.body)
    check("4xx", refused.status == 422, problem.type.startswith("/problems/"), problem.status == 422)

policy = producer.update_policy(FEED, PolicyPatch(capacity=5, row_ttl_ms=60_000))
check("policy", policy.capacity == 5, producer.get_policy(FEED).row_ttl_ms == 60_000)

later = producer.publish_gift(FEED, rose("cyd", id="g-3", delay_ms=600_000))
check("scheduled", later.status == "scheduled", producer.list_scheduled_gifts(FEED).scheduled[0].id == "g-3")
check("cancelled", producer.cancel_scheduled_gift(FEED, "g-3").status == "cancelled")

check("drop", drops.define_drop(FEED, "rocket", DropSpec(gift=GiftKind(id="r", name="R"), total=3, per_user=2)).free == 3)
sold = drops.claim_drop(FEED, "rocket", DropClaim(id="c-1", user=User(id="ann", name="Ann"), pay="now"))
held = drops.claim_drop(FEED, "rocket", DropClaim(id="c-2", user=User(id="bob", name="Bob"), pay="later"))
check("claims", sold.status == "sold", held.status == "held")
check("confirmed", drops.confirm_hold(FEED, held.hold).status == "sold")

claimed = reports.claim_entries(FEED, "game", GroupClaim(consumer="c")).entries
check("entries", claimed[0].gift.id == "g-1", len(claimed) == 4)
acked = reports.ack_entries(FEED, "game", EntryCursors(cursors=[entry.cursor for entry in claimed]))
check("ack", acked.acked == 4, acked.unknown == 0)

check("read", watching.get_feed(FEED).rows[-1].user.name == "ann")
# Every type of entry that there is, and one that there is not yet.
samples = ReportsApi(tipcast_api.ApiClient(tipcast_api.Configuration(host=os.environ["SAMPLES_URL"])))
types, count, amount = [], 0, 0
while entries := samples.claim_entries(FEED, "game", GroupClaim(consumer="c")).entries:
    for entry in entries:
        types.append(entry.type)
        count += entry.delta.count if entry.delta else 0
        amount += entry.delta.value.amount if entry.delta and entry.delta.value else 0
    cursors = [entry.cursor for entry in entries]
    check("ack samples", samples.ack_entries(FEED, "game", EntryCursors(cursors=cursors)).acked == len(cursors))
check("samples", len(types) == 10, len(set(types)) == 10, "gift.polished" in types, (count, amount) == (7, 5740))
print("ok")
