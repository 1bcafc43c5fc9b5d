package tipcast

import java.sql.Connection
import java.sql.SQLException
import javax.sql.DataSource

/** What is done about an entry, inside a transaction. */
public fun interface EventWork {
    @Throws(Exception::class)
    public fun run(connection: Connection)
}

/**
 * Knows which entries were handled before, in a table beside your own data (SQLite 3.24 or newer, PostgreSQL).
 *
 * Over a connection, which is not used by another thread meanwhile; or over a data source, which is asked for a connection at each
 * call, so that one that was lost is replaced.
 */
public class EventStore private constructor(
    private val table: String,
    private val isPooled: Boolean,
    private val connect: () -> Connection,
) {
    @JvmOverloads
    public constructor(connection: Connection, table: String = DEFAULT) : this(table, false, { connection })

    @JvmOverloads
    public constructor(source: DataSource, table: String = DEFAULT) : this(table, true, { source.connection })

    init {
        require(TABLE.matches(table)) { "$table is no name of a table" }
    }

    /** Makes the table, unless it is there. */
    @Throws(SQLException::class)
    public fun create() {
        val connection = connect()
        try {
            connection.createStatement().use {
                it.execute(
                    "CREATE TABLE IF NOT EXISTS $table (event_id VARCHAR(96) PRIMARY KEY, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
                )
            }
            if (!connection.autoCommit) connection.commit()
        } finally {
            if (isPooled) connection.close()
        }
    }

    /**
     * Runs [work], unless the entry was handled before, and answers whether it did. What [work] does on its connection and the
     * note that the entry is handled are one transaction: both happen, or, where [work] throws, neither does.
     */
    @Throws(Exception::class)
    public fun once(entry: Entry, work: EventWork): Boolean {
        require(ID.matches(entry.eventId)) { "${entry.eventId} is no event's id" }
        val connection = connect()
        try {
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
                if (commitsItself) connection.autoCommit = true
                return isNew
            } catch (e: Throwable) {
                undo(connection, commitsItself)?.let(e::addSuppressed)
                throw e
            }
        } finally {
            if (isPooled) connection.close()
        }
    }

    /** Undoes the transaction, or closes the connection, so that a later commit cannot take half of it along. */
    private fun undo(connection: Connection, commitsItself: Boolean): SQLException? = try {
        connection.rollback()
        if (commitsItself) connection.autoCommit = true
        null
    } catch (e: SQLException) {
        runCatching { connection.close() }
        e
    }

    private companion object {
        const val DEFAULT = "tipcast_events"
        val ID = Regex("[A-Za-z0-9_.-]{1,64}/[0-9]{1,16}")
        val TABLE = Regex("[A-Za-z_][A-Za-z0-9_.]{0,99}")
    }
}
