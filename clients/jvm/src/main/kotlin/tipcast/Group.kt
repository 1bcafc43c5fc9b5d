package tipcast

import kotlinx.serialization.DeserializationStrategy
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable
import kotlinx.serialization.builtins.ListSerializer
import kotlinx.serialization.builtins.serializer
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import java.time.Duration
import java.util.UUID
import java.util.concurrent.ThreadLocalRandom
import java.util.logging.Level
import java.util.logging.Logger
import kotlin.math.max
import kotlin.math.min

/** A gift as the ledger has it. Of one that was taken back there may be only its [id]. */
@Serializable
public data class EntryGift(
    val id: String,
    val user: User? = null,
    val gift: GiftKind? = null,
    val count: Long = 1,
    val value: Value? = null,
    val message: String? = null,
    val combo: Combo? = null,
    val tier: Int? = null,
    val meta: JsonObject? = null,
)

/** By how much an entry changes what was given: negative where that was taken back; no [value] where the gift has none. */
@Serializable
public data class Delta(val count: Long, val value: Value? = null)

/** Entries that were cut before this reader was handed them: the cursors of the first and the last. */
@Serializable
public data class Lost(val from: String, val to: String, val count: Long)

/**
 * Something that happened in a feed: [type] says what. [eventId] is the key to know a repeat by. Entries that are about no gift,
 * such as a goal that was reached, have neither [gift] nor [delta].
 */
@Serializable
public data class Entry(
    val cursor: String,
    @SerialName("event_id") val eventId: String = "",
    val type: String = "",
    val feed: String = "",
    val at: String = "",
    val attempt: Int = 1,
    val seq: Long? = null,
    val row: String? = null,
    val drop: String? = null,
    val hold: String? = null,
    val delta: Delta? = null,
    val reason: String? = null,
    val gift: EntryGift? = null,
    val goal: JsonObject? = null,
    val lost: Lost? = null,
)

/** Handles an entry. The entry is acknowledged when it returns. */
public fun interface EntryHandler {
    @Throws(Exception::class)
    public fun handle(entry: Entry)
}

/**
 * Reads a feed's ledger at its own pace; several consumers of one [group] share the work. Needs the right `reports`. An instance
 * is for one thread.
 *
 * An entry whose handler throws, or that cannot be read, is logged (`java.util.logging`, as `tipcast`), given back alone after a
 * pause that grows with its attempts, and comes again; its neighbours go on. The gateway makes it a dead letter after its 16th
 * attempt. An entry may come twice: know it by its [Entry.eventId], as [EventStore] does.
 */
public class Group @JvmOverloads constructor(
    private val producer: Producer,
    private val feed: String,
    private val group: String,
    private val consumer: String = "jvm-" + UUID.randomUUID().toString().take(12),
    /** Entries of one claim. */
    private val max: Int = 128,
    /** Handling a claim has to be over before it is. */
    private val lease: Duration = Duration.ofSeconds(30),
) {
    /** Entries that failed, and when they are given back. */
    private val later = HashMap<String, Long>()

    /** How many have failed since one was handled. */
    private var failures = 0

    /** Hands every entry to [handler]; see the other [consume]. */
    @Throws(java.io.IOException::class, InterruptedException::class)
    public fun consume(handler: EntryHandler): Unit = consume(mapOf(ANY to handler))

    /**
     * Hands every entry to the handler of its type, at least once, until the thread is interrupted. `"*"` takes types that have
     * none of their own; without it they are logged and acknowledged: new types may come at any time. Where nothing works any
     * more, because your database is away, entries are claimed one by one with growing pauses, up to a minute. Outages of the
     * gateway, however long, are waited out. [Refused] is thrown where the first claim is refused.
     */
    @Throws(java.io.IOException::class, InterruptedException::class)
    public fun consume(handlers: Map<String, EntryHandler>) {
        var hasClaimed = false
        while (true) {
            try {
                step(WAIT, handlers)
                hasClaimed = true
            } catch (e: Unavailable) {
                LOG.warning("no entries of $feed/$group, trying again: ${e.message}")
            } catch (e: Refused) {
                if (!hasClaimed) throw e
                LOG.warning("no entries of $feed/$group, trying again: ${e.message}")
                Thread.sleep(REFUSED_PAUSE)
            }
            if (failures > 0) {
                val ceiling = min(PAUSE_MOST, PAUSE shl min(failures, 10))
                Thread.sleep(ceiling / 2 + ThreadLocalRandom.current().nextLong(ceiling / 2))
            }
        }
    }

    /** One claim, which waits for entries for so long; answers how many were handled. */
    @Throws(java.io.IOException::class, InterruptedException::class)
    public fun step(waitMs: Long, handler: EntryHandler): Int = step(waitMs, mapOf(ANY to handler))

    /** One claim, which waits for entries for so long; answers how many were handled. */
    @Throws(java.io.IOException::class, InterruptedException::class)
    public fun step(waitMs: Long, handlers: Map<String, EntryHandler>): Int {
        val now = System.nanoTime() / 1_000_000
        val due = later.filterValues { it <= now }.keys.toList()
        later.keys.removeAll(due.toSet())
        settle(emptyList(), due)
        val wait = later.values.fold(waitMs) { least, at -> min(least, max(at - now, 0)) }
        val entries = claim(wait)
        val done = ArrayList<String>()
        var tried = 0
        try {
            for (text in entries) {
                // It is not this one's fault, it seems.
                if (failures >= 3 && tried > 0) break
                if (Thread.interrupted()) throw InterruptedException()
                val cursor = cursorOf(text)
                val failed = handle(text, handlers)
                if (failed == null) {
                    failures = 0
                    done += cursor
                } else {
                    failures += 1
                    later[cursor] = System.nanoTime() / 1_000_000 + min(1_000L shl min(failed - 1, 16), lease.toMillis() / 2)
                }
                tried += 1
            }
        } catch (e: Throwable) {
            settle(done, entries.drop(tried).map(::cursorOf) + later.keys)
            later.clear()
            throw e
        }
        settle(done, entries.drop(tried).map(::cursorOf))
        return done.size
    }

    private fun cursorOf(text: JsonElement): String =
        ((text as? JsonObject)?.get("cursor") as? JsonPrimitive)?.content.orEmpty()

    /** Handles one entry. `null` if that went well, else which attempt it was. */
    private fun handle(text: JsonElement, handlers: Map<String, EntryHandler>): Int? {
        var entry: Entry? = null
        try {
            entry = json.decodeFromJsonElement(Entry.serializer(), text)
            val handler = handlers[entry.type] ?: handlers[ANY]
            if (handler == null) LOG.info("nothing is done about ${entry.eventId} (${entry.type})")
            handler?.handle(entry)
            return null
        } catch (e: InterruptedException) {
            throw e
        } catch (e: VirtualMachineError) {
            throw e
        } catch (e: Throwable) {
            // One entry's trouble is no other's: also what is no Exception, such as a TODO().
            val about = entry?.let { "${it.eventId} (${it.type}), attempt ${it.attempt}," } ?: "the entry ${cursorOf(text)}"
            LOG.log(Level.SEVERE, "$about failed; it comes again", e)
            return max(entry?.attempt ?: 1, 1)
        }
    }

    private fun claim(waitMs: Long): List<JsonElement> {
        val asked = buildJsonObject {
            put("consumer", consumer)
            put("max", if (failures > 0) 1 else max)
            put("wait_ms", waitMs)
            put("lease_ms", lease.toMillis())
        }
        return call("claim", asked, Claimed.serializer(), waitMs).entries
    }

    /** Acknowledges and gives back. Where nobody answers, the leases run out and the entries come again. */
    private fun settle(done: List<String>, rest: List<String>) {
        try {
            tell("ack", done)
            tell("nack", rest)
        } catch (e: Failed) {
            LOG.warning("${done.size} entries of $feed/$group will come again, their acknowledgement failed: ${e.message}")
        }
    }

    private fun tell(what: String, cursors: List<String>) {
        if (cursors.isEmpty()) return
        val list = json.encodeToJsonElement(ListSerializer(String.serializer()), cursors)
        call(what, buildJsonObject { put("cursors", list) }, JsonElement.serializer(), 0)
    }

    private fun <T> call(what: String, body: JsonElement, into: DeserializationStrategy<T>, waitMs: Long): T =
        producer.call("POST", listOf("feeds", feed, "groups", group, what), body, into, waitMs)

    @Serializable
    private class Claimed(val entries: List<JsonElement>)

    private companion object {
        const val ANY = "*"
        const val WAIT = 20_000L
        const val REFUSED_PAUSE = 10_000L
        const val PAUSE = 500L
        const val PAUSE_MOST = 60_000L
        val LOG: Logger = Logger.getLogger("tipcast")
    }
}
