package tipcast

import java.sql.Connection
import java.sql.SQLException

/** What is done about an entry, inside a transaction. */
public fun interface EventWork {
    @Throws(Exception::class)
    public fun run(connection: Connection)
}

/**
 * Knows which entries were handled before, in a [table] beside your own data (SQLite 3.24 or newer, PostgreSQL). The
 * [connection] is not used by another thread meanwhile.
 */
public class EventStore @JvmOverloads constructor(
    private val connection: Connection,
    private val table: String = "tipcast_events",
) {
    init {
        require(TABLE.matches(table)) { "$table is no name of a table" }
    }

    /** Makes the table, unless it is there. */
    @Throws(SQLException::class)
    public fun create() {
        connection.createStatement().use {
            it.execute(
                "CREATE TABLE IF NOT EXISTS $table (event_id VARCHAR(96) PRIMARY KEY, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
            )
        }
        if (!connection.autoCommit) connection.commit()
    }

    /**
     * Runs [work], unless the entry was handled before, and answers whether it did. What [work] does on its connection and the
     * note that the entry is handled are one transaction: both happen, or, where [work] throws, neither does.
     */
    @Throws(Exception::class)
    public fun once(entry: Entry, work: EventWork): Boolean {
        require(ID.matches(entry.eventId)) { "${entry.eventId} is no event's id" }
        val commitsItself = connection.autoCommit
        if (commitsItself) connection.autoCommit = false
        try {
            val isNew = connection.createStatement().use {
                it.executeUpdate("INSERT INTO $table (event_id) VALUES ('${entry.eventId}') ON CONFLICT DO NOTHING") == 1
            }
            if (isNew) {
                work.run(connection)
                connection.commit()
            } else {
                connection.rollback()
            }
            return isNew
        } catch (e: Throwable) {
            connection.rollback()
            throw e
        } finally {
            if (commitsItself) connection.autoCommit = true
        }
    }

    private companion object {
        val ID = Regex("[A-Za-z0-9_.-]{1,64}/[0-9]{1,16}")
        val TABLE = Regex("[A-Za-z_][A-Za-z0-9_.]{0,99}")
    }
}
