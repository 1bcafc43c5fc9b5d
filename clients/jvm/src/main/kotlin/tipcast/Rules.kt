package tipcast

import kotlin.math.max
import kotlin.math.min
import kotlin.math.roundToLong

/** How a connection ended, or why there was none. */
internal data class Ending(
    /** The close code; 1006 when the line was lost. */
    val code: Int = LOST,
    val reason: String = "",
    /** The status of a handshake that was refused. */
    val status: Int? = null,
    /** What its `Retry-After` asked for. */
    val retryAfterMs: Long? = null,
)

internal const val LOST: Int = 1006

/** What to do then. */
internal sealed class Next {
    /** Not again: the same would come of it. */
    data class Stop(val code: Int, val reason: String) : Next()

    /**
     * Connect again after so long. [asked]: the gateway wanted that time, nothing may cut it short. [newToken]: not with
     * the token of the last time.
     */
    data class Wait(val ms: Long, val asked: Boolean = false, val newToken: Boolean = false) : Next()
}

/**
 * What a client decides, with the numbers of PROTOCOL.md's table: no I/O, no clock. Times are in milliseconds.
 */
internal open class Rules(private val random: () -> Double = Math::random) {
    /** Connections in a row that did not last. */
    private var failures = 0

    /** A new token was asked for since the last one that was good. */
    private var askedAgain = false

    /** Silence after which a line is dead, where the gateway promised a frame every [keepaliveMs]. */
    open fun silence(keepaliveMs: Long): Long = keepaliveMs + GRACE

    /** The first frame came: what was shown at the door was good. */
    fun begun() {
        askedAgain = false
    }

    /** Anywhere between nothing and a ceiling that doubles. */
    private fun backoff(): Long = (random() * min(MOST, FIRST shl min(failures, DOUBLINGS))).roundToLong()

    /**
     * After a connection that lived [livedMs] since its first frame; [goodbyeMs] is what a goodbye asked for. [canAsk]:
     * there is somebody to ask for a new token.
     */
    open fun after(ending: Ending, livedMs: Long?, goodbyeMs: Long?, canAsk: Boolean): Next {
        if (livedMs != null && livedMs >= STEADY) failures = 0
        val code = ending.code
        val status = ending.status
        val next = when {
            status != null -> afterStatus(status, ending, canAsk)
            code == 4001 || code == 4003 -> askOnce(ending, canAsk)
            code == 4101 -> when {
                !canAsk -> Next.Stop(code, ending.reason)
                // Tokens that do not last are no reason to connect without a pause.
                livedMs != null && livedMs >= STEADY -> Next.Wait(0, newToken = true)
                else -> Next.Wait(backoff(), newToken = true)
            }
            code in 4000..4099 -> Next.Stop(code, ending.reason)
            goodbyeMs != null -> Next.Wait(goodbyeMs, asked = true)
            code in 4100..4199 -> {
                failures = max(failures, SLOW)
                Next.Wait(backoff(), asked = true)
            }
            code == 1003 || code == 1007 || code == 1009 -> {
                failures = max(failures, WRONG)
                Next.Wait(backoff(), asked = true)
            }
            else -> Next.Wait(backoff())
        }
        failures += 1
        return next
    }

    private fun afterStatus(status: Int, ending: Ending, canAsk: Boolean): Next = when (status) {
        401, 403 -> askOnce(ending.copy(code = if (status == 401) 4001 else 4003), canAsk)
        404, 421, 422, 426 -> Next.Stop(status, ending.reason)
        429, 503 -> {
            failures = max(failures, SLOW)
            val wait = ending.retryAfterMs
            Next.Wait(if (wait == null) backoff() else wait + (random() * wait).roundToLong(), asked = true)
        }
        else -> Next.Wait(backoff())
    }

    /** A source that gives the same again is not asked for ever. */
    private fun askOnce(ending: Ending, canAsk: Boolean): Next {
        if (!canAsk || askedAgain) return Next.Stop(ending.code, ending.reason)
        askedAgain = true
        return Next.Wait(0, newToken = true)
    }

    internal companion object {
        /** Handshake and first frame together. */
        const val FIRST_FRAME: Long = 15_000

        /** How long a line may take to close. */
        const val CLOSING: Long = 3_000

        /** How long a token may take to come. */
        const val TOKEN_WITHIN: Long = 15_000

        private const val GRACE = 5_000L
        private const val FIRST = 500L
        private const val MOST = 20_000L
        private const val DOUBLINGS = 6

        /** A connection that lived this long was a good one. */
        private const val STEADY = 10_000L

        /** Its ceiling is 8 s. */
        private const val SLOW = 4

        /** Its ceiling is 20 s. */
        private const val WRONG = 6
    }
}
