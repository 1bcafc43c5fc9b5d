package tipcast

import java.sql.Connection
import java.sql.DriverManager
import java.time.Duration

/** A game's backend that credits what the ledger says, for benches/ledger_soak. */
public fun main() {
    val db = DriverManager.getConnection("jdbc:sqlite:" + System.getenv("DATABASE"))
    val store = EventStore(db)
    store.create()
    db.createStatement().use {
        it.execute("CREATE TABLE IF NOT EXISTS givers (gift TEXT PRIMARY KEY, user TEXT)")
        it.execute("CREATE TABLE IF NOT EXISTS accounts (user TEXT, currency TEXT, amount INTEGER, PRIMARY KEY (user, currency))")
        it.execute("CREATE TABLE IF NOT EXISTS types (type TEXT PRIMARY KEY, n INTEGER)")
    }
    // What is done about an entry, once, in the transaction that knows it.
    fun once(work: (Connection, Entry) -> Unit) = EntryHandler { entry ->
        store.once(entry) {
            it.update("INSERT INTO types VALUES (?, 1) ON CONFLICT (type) DO UPDATE SET n = n + 1", entry.type)
            work(it, entry)
        }
    }
    val credited = listOf(
        "gift.accepted", "gift.merged", "gift.suppressed", "gift.denied", "drop.sold", "gift.retracted", "gift.refunded",
    )
    val handlers = credited.associateWith { once(::credit) } + ("*" to once { _, _ -> })
    val producer = Producer(System.getenv("TIPCAST_URL"))
    Group(producer, "soak", System.getenv("GROUP"), lease = Duration.ofSeconds(5)).consume(handlers)
}

private fun credit(db: Connection, entry: Entry) {
    val gift = entry.gift!!
    val name = "${entry.drop.orEmpty()}/${gift.id}"
    val user = gift.user?.id ?: db.prepareStatement("SELECT user FROM givers WHERE gift = ?").use {
        it.setString(1, name)
        it.executeQuery().getString(1)
    }
    db.update("INSERT INTO givers VALUES (?, ?) ON CONFLICT DO NOTHING", name, user)
    val value = entry.delta!!.value ?: return
    db.update(
        "INSERT INTO accounts VALUES (?, ?, ?) ON CONFLICT (user, currency) DO UPDATE SET amount = amount + excluded.amount",
        user, value.currency, value.amount,
    )
}

private fun Connection.update(sql: String, vararg values: Any) {
    prepareStatement(sql).use {
        values.forEachIndexed { n, value -> it.setObject(n + 1, value) }
        it.executeUpdate()
    }
}
