package tipcast

import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.runInterruptible
import kotlinx.serialization.DeserializationStrategy
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable
import kotlinx.serialization.SerializationException
import kotlinx.serialization.builtins.ListSerializer
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import okhttp3.HttpUrl.Companion.toHttpUrl
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody.Companion.toRequestBody
import java.io.IOException
import java.time.Duration
import java.util.UUID
import java.util.concurrent.ThreadLocalRandom
import java.util.concurrent.TimeUnit
import kotlin.math.min

/** A gift as a producer sends it. Without [id] one is made, so that a retry is not a second gift. Times are RFC 3339. */
@Serializable
public data class Gift @JvmOverloads constructor(
    val user: User,
    val gift: GiftKind,
    val id: String? = null,
    val count: Long = 1,
    val value: Value? = null,
    val message: String? = null,
    val combo: Combo? = null,
    val tier: Int? = null,
    val test: Boolean = false,
    @SerialName("occurred_at") val occurredAt: String? = null,
    @SerialName("deliver_at") val deliverAt: String? = null,
    @SerialName("delay_ms") val delayMs: Long? = null,
    val meta: JsonObject? = null,
)

/** What became of a gift. [duplicate]: its id had come before, and this is the first answer again. */
@Serializable
public data class Posted(
    val status: String,
    val id: String = "",
    val epoch: String? = null,
    val seq: Long? = null,
    val row: String? = null,
    val count: Long? = null,
    @SerialName("deliver_at") val deliverAt: String? = null,
    val duplicate: Boolean = false,
    /** Its place in a batch, and why it was refused. */
    val index: Int = 0,
    val error: Problem? = null,
)

/**
 * Units of a drop that somebody wants. [pay] is `now` or `later`. Without [id] one is made, so that a retry is not a second
 * sale.
 */
@Serializable
public data class DropClaim @JvmOverloads constructor(
    val user: User,
    val pay: String,
    val id: String? = null,
    val count: Long = 1,
    val message: String? = null,
)

/** What became of a claim: [status] is `sold`, or `held` with a [hold] until [expiresAt]; [value] is what it costs. */
@Serializable
public data class DropAnswer(
    val status: String,
    val seq: Long? = null,
    val row: String? = null,
    val hold: String? = null,
    @SerialName("expires_at") val expiresAt: String? = null,
    val value: Value? = null,
)

/** A refusal (RFC 9457). */
@Serializable
public data class Problem(
    val type: String = "about:blank",
    val title: String = "",
    val status: Int = 0,
    val detail: String = "",
    val errors: List<Fault> = emptyList(),
) {
    /** What is wrong with one field. */
    @Serializable
    public data class Fault(val pointer: String, val detail: String)
}

/**
 * A call that failed. [ids] are those of the gifts that were sent, in their order, also those that were made here: to send
 * them again, give each gift its id, and what was taken already is not taken twice. Empty for other calls.
 */
public sealed class Failed(message: String, cause: Throwable?, public val ids: List<String>) : IOException(
    when (ids.size) {
        0 -> message
        1 -> "$message (gift id ${ids[0]})"
        else -> "$message (${ids.size} gifts, the first with id ${ids[0]})"
    },
    cause,
)

/** The gateway refused; sending the same again is of no use. */
public class Refused @JvmOverloads constructor(public val problem: Problem, ids: List<String> = emptyList()) : Failed(
    "${problem.status} ${problem.type}: ${problem.detail}" + problem.errors.joinToString("") { "; ${it.pointer}: ${it.detail}" },
    null,
    ids,
)

/** There was no answer in time. Sending the same again, with the same [ids], is safe. */
public class Unavailable @JvmOverloads constructor(message: String, cause: Throwable?, ids: List<String> = emptyList()) :
    Failed(message, cause, ids)

/**
 * Sends gifts to a gateway. Calls block until there is an answer, and are retried with the same id for [retryFor] while
 * there is none, or 429, 503 and other 5xx: a gift is taken once however often it had to be sent. They throw [Refused],
 * or [Unavailable] when the time has ended; both have the ids of the gifts. In coroutines, use [suspending].
 */
public class Producer @JvmOverloads constructor(
    url: String,
    private val key: String? = null,
    client: OkHttpClient = OkHttpClient(),
    private val retryFor: Duration = Duration.ofMinutes(1),
) {
    private val base = url.trimEnd('/').toHttpUrl()
    private val client = client.newBuilder().callTimeout(ATTEMPT, TimeUnit.MILLISECONDS).build()

    /** Sends one gift. */
    @Throws(IOException::class, InterruptedException::class)
    public fun post(feed: String, gift: Gift): Posted {
        val named = named(gift)
        return sending({ listOfNotNull(named.id) }) {
            call("POST", listOf("feeds", feed, "gifts"), json.encodeToJsonElement(Gift.serializer(), named), Posted.serializer())
        }
    }

    /**
     * Sends many, in batches of 128, and answers one result for each, in order. What is thrown has the ids of all of them,
     * those of batches that went well too.
     */
    @Throws(IOException::class, InterruptedException::class)
    public fun postAll(feed: String, gifts: List<Gift>): List<Posted> {
        val all = gifts.map(::named)
        return sending({ all.mapNotNull { it.id } }) {
            all.chunked(BATCH).flatMapIndexed { n, batch ->
                val list = json.encodeToJsonElement(ListSerializer(Gift.serializer()), batch)
                val body = buildJsonObject { put("gifts", list) }
                call("POST", listOf("feeds", feed, "gifts", "batch"), body, Results.serializer()).results
                    .map { it.copy(index = it.index + n * BATCH) }
            }
        }
    }

    /** Adds these ids to what [send] throws. */
    private inline fun <T> sending(ids: () -> List<String>, send: () -> T): T {
        return try {
            send()
        } catch (e: Refused) {
            throw Refused(e.problem, ids())
        } catch (e: Unavailable) {
            throw Unavailable(e.message.orEmpty(), e.cause, ids())
        }
    }

    /** Takes a row back everywhere. */
    @Throws(IOException::class, InterruptedException::class)
    public fun retract(feed: String, row: String) {
        call("DELETE", listOf("feeds", feed, "rows", row), null, JsonElement.serializer())
    }

    /** Takes one gift back by its id. */
    @JvmOverloads
    @Throws(IOException::class, InterruptedException::class)
    public fun retractGift(feed: String, gift: String, reason: String? = null) {
        val body = reason?.let { buildJsonObject { put("reason", it) } }
        call("POST", listOf("feeds", feed, "gifts", "retract"), body, JsonElement.serializer(), id = gift)
    }

    /**
     * Takes a part of a gift's value back. [refunded] is all that is refunded so far, in minor units: a repeat changes nothing.
     */
    @JvmOverloads
    @Throws(IOException::class, InterruptedException::class)
    public fun refund(feed: String, gift: String, refunded: Long, reason: String? = null) {
        val body = buildJsonObject {
            put("refunded", refunded)
            if (reason != null) put("reason", reason)
        }
        call("POST", listOf("feeds", feed, "gifts", "refund"), body, JsonElement.serializer(), id = gift)
    }

    /** Claims units of a drop. What is thrown has the claim's id. */
    @Throws(IOException::class, InterruptedException::class)
    public fun sell(feed: String, drop: String, claim: DropClaim): DropAnswer {
        val named = claim.copy(id = claim.id ?: UUID.randomUUID().toString())
        val body = json.encodeToJsonElement(DropClaim.serializer(), named)
        return sending({ listOfNotNull(named.id) }) {
            call("POST", listOf("feeds", feed, "drops", drop, "claims"), body, DropAnswer.serializer())
        }
    }

    /** A hold was paid: its gift is shown. */
    @Throws(IOException::class, InterruptedException::class)
    public fun confirm(feed: String, hold: String): DropAnswer =
        call("POST", listOf("feeds", feed, "holds", hold, "confirm"), null, DropAnswer.serializer())

    /** Cancels a hold: its units are free again. */
    @Throws(IOException::class, InterruptedException::class)
    public fun release(feed: String, hold: String) {
        call("DELETE", listOf("feeds", feed, "holds", hold), null, JsonElement.serializer())
    }

    /** Cancels a scheduled gift; [Refused] with status 409 when it was shown already. */
    @Throws(IOException::class, InterruptedException::class)
    public fun cancel(feed: String, gift: String) {
        call("DELETE", listOf("feeds", feed, "scheduled"), null, JsonElement.serializer(), id = gift)
    }

    /** Runs [calls] where blocking is fine; cancelling the coroutine interrupts it. */
    public suspend fun <T> suspending(calls: Producer.() -> T): T = runInterruptible(Dispatchers.IO) { calls() }

    private fun named(gift: Gift): Gift = if (gift.id == null) gift.copy(id = UUID.randomUUID().toString()) else gift

    /**
     * One request below /v1 for what has no function here, given as the parts of its path: `call("GET", listOf("feeds", "demo",
     * "policy"))`. An answer without a body is an empty object.
     */
    @JvmOverloads
    @Throws(IOException::class)
    public fun call(method: String, path: List<String>, query: Map<String, String> = emptyMap(), body: JsonElement? = null): JsonElement =
        call(method, path, body ?: if (method in WITH_BODY) JsonObject(emptyMap()) else null, JsonElement.serializer(), query = query)

    /** As the public one; [waitMs] is added to the time of an attempt. */
    internal fun <T> call(
        method: String, path: List<String>, body: JsonElement?, into: DeserializationStrategy<T>, waitMs: Long = 0,
        id: String? = null, query: Map<String, String> = emptyMap(),
    ): T {
        val url = base.newBuilder().addPathSegment("v1").apply {
            path.forEach(::addPathSegment)
            // A path cannot carry the ids `.` and `..`.
            if (id != null) addQueryParameter("id", id)
            query.forEach(::addQueryParameter)
        }.build()
        val request = Request.Builder().url(url)
            .method(method, body?.toString()?.toRequestBody(JSON) ?: if (method == "POST") EMPTY else null)
        if (key != null) request.header("Authorization", "Bearer $key")
        val client = if (waitMs == 0L) client else client.newBuilder()
            .callTimeout(ATTEMPT + waitMs, TimeUnit.MILLISECONDS).readTimeout(ATTEMPT + waitMs, TimeUnit.MILLISECONDS).build()
        val until = System.nanoTime() + retryFor.toNanos()
        var tries = 0
        while (true) {
            val again = once(client, request.build(), into) { return it }
            val pause = again.afterMs + ThreadLocalRandom.current().nextLong(min(PAUSE_MOST, PAUSE shl min(tries, 10)))
            tries += 1
            if (System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pause) > until) {
                throw Unavailable("$method ${url.encodedPath} after $tries tries: ${again.why.message}", again.why)
            }
            Thread.sleep(pause)
        }
    }

    /** Why another try is worth it. */
    private class Again(val afterMs: Long, val why: IOException)

    private inline fun <T> once(client: OkHttpClient, request: Request, into: DeserializationStrategy<T>, done: (T) -> Unit): Again {
        val (status, after, text) = try {
            client.newCall(request).execute().use { answer ->
                Triple(answer.code, answer.header("Retry-After")?.toLongOrNull() ?: 0, answer.body?.string().orEmpty())
            }
        } catch (e: IOException) {
            // OkHttp turns an interrupt into a time-out of its own.
            if (Thread.interrupted()) throw InterruptedException()
            return Again(0, e)
        }
        if (status == 408 || status == 425 || status == 429 || status >= 500) {
            return Again(after.coerceIn(0, 3_600) * 1_000, IOException("$status ${text.take(200)}"))
        }
        try {
            if (status < 300) done(json.decodeFromString(into, text.ifEmpty { "{}" }))
        } catch (e: SerializationException) {
            throw Refused(Problem(status = status, detail = "an answer that cannot be read: ${e.message}"))
        }
        val problem = runCatching { json.decodeFromString(Problem.serializer(), text) }.getOrElse { Problem(detail = text.take(200)) }
        throw Refused(problem.copy(status = status))
    }

    @Serializable
    private class Results(val results: List<Posted>)

    private companion object {
        const val BATCH = 128

        /** Methods that say nothing without a body. */
        val WITH_BODY = setOf("PUT", "PATCH")

        /** One attempt, in milliseconds. */
        const val ATTEMPT = 10_000L
        const val PAUSE = 250L
        const val PAUSE_MOST = 10_000L
        val JSON = "application/json".toMediaType()
        val EMPTY = ByteArray(0).toRequestBody(null)
    }
}
