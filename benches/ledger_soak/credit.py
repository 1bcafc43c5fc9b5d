"""A game's backend with the Python client: credits what the ledger says. See soak.py."""

import asyncio
import os
import sqlite3

from tipcast import AsyncTipcast, EventStore, Tipcast

store = EventStore(os.environ["DATABASE"])
store.create()
sqlite3.connect(os.environ["DATABASE"]).executescript("""
    CREATE TABLE IF NOT EXISTS givers (gift TEXT PRIMARY KEY, user TEXT);
    CREATE TABLE IF NOT EXISTS accounts (user TEXT, currency TEXT, amount INTEGER, PRIMARY KEY (user, currency));
    CREATE TABLE IF NOT EXISTS types (type TEXT PRIMARY KEY, n INTEGER);
""")


def count(cursor, entry):
    cursor.execute("INSERT INTO types VALUES (?, 1) ON CONFLICT (type) DO UPDATE SET n = n + 1", [entry["type"]])


def credit(entry):
    with store.once(entry) as cursor:
        if not cursor:
            return
        count(cursor, entry)
        gift, value = entry["gift"], entry["delta"].get("value")
        name = f"{entry.get('drop', '')}/{gift['id']}"
        if "user" in gift:
            user = gift["user"]["id"]
            cursor.execute("INSERT INTO givers VALUES (?, ?) ON CONFLICT DO NOTHING", [name, user])
        else:
            (user,) = cursor.execute("SELECT user FROM givers WHERE gift = ?", [name]).fetchone()
        if value:
            cursor.execute(
                "INSERT INTO accounts VALUES (?, ?, ?) ON CONFLICT (user, currency) DO UPDATE SET amount = amount + excluded.amount",
                [user, value["currency"], value["amount"]],
            )


def other(entry):
    with store.once(entry) as cursor:
        if cursor:
            count(cursor, entry)


CREDITED = "gift.accepted gift.merged gift.suppressed gift.denied drop.sold gift.retracted gift.refunded".split()


HANDLERS = dict.fromkeys(CREDITED, credit) | {"*": other}


async def run():
    async with AsyncTipcast(os.environ["TIPCAST_URL"]) as tipcast:
        await tipcast.consume("soak", os.environ["GROUP"], HANDLERS, lease_ms=5000)


if os.environ["GROUP"] == "python-async":
    asyncio.run(run())
else:
    with Tipcast(os.environ["TIPCAST_URL"]) as tipcast:
        tipcast.consume("soak", os.environ["GROUP"], HANDLERS, lease_ms=5000)
