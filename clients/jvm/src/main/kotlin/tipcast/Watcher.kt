package tipcast

import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.long
import kotlinx.serialization.json.put
import okhttp3.HttpUrl
import okhttp3.HttpUrl.Companion.toHttpUrl
import okhttp3.OkHttpClient
import java.io.Closeable
import java.util.concurrent.ExecutionException
import java.util.concurrent.Executor
import java.util.concurrent.FutureTask
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.ScheduledFuture
import java.util.concurrent.ScheduledThreadPoolExecutor
import java.util.concurrent.TimeUnit

/** What a watcher is doing. */
public sealed class State {
    /** A connection is being opened. */
    public object Connecting : State() {
        override fun toString(): String = "Connecting"
    }

    /** The list is kept up to date over a `ws` or an `sse`. */
    public data class Live(val transport: String) : State()

    /** The next attempt comes in this number of milliseconds. */
    public data class Waiting(val retryInMs: Long) : State()

    /** By [Watcher.pause]. */
    public object Paused : State() {
        override fun toString(): String = "Paused"
    }

    /** The end: 1000 by [Watcher.close], else the close code or the status with which the gateway wants no more attempts. */
    public data class Closed(val code: Int, val reason: String) : State()
}

/** The receiver of events. Calls come one after the other; until one returns, the next waits, and the gateway folds what waits. */
public interface FeedListener {
    /** The list is another one now, because of [change]. */
    public fun onChange(list: FeedList, change: Change) {}

    public fun onState(state: State) {}

    /** How many watch the feed, where its policy says so. */
    public fun onPresence(watchers: Long) {}
}

/**
 * Gives a viewer's token, or a key with the right to read. Asked before the first connection, when the token is about to
 * end, and once more when it was refused; on a thread of its own, for 15 s at most. null: none now, ask again later.
 */
public fun interface TokenSource {
    @Throws(Exception::class)
    public fun token(feed: String): String?
}

/**
 * Keeps the list of one feed up to date, over one connection at a time, until [close].
 *
 * Everything happens on one thread of the watcher's own; the methods may be called from any thread and return at once.
 */
public class Watcher internal constructor(
    private val feed: String,
    private val wires: Wires,
    private val tokens: TokenSource?,
    private val listener: FeedListener,
    private val callbacks: Executor,
    private val events: Boolean,
    private val fold: Fold,
    private val rules: Rules,
) : Closeable {
    private val loop = ScheduledThreadPoolExecutor(1) { task ->
        Thread(task, "tipcast-$feed").apply { isDaemon = true }
    }.apply { removeOnCancelPolicy = true }

    // At most one of the three is set: the line that is heard, the question that is open, the timer that opens the next.
    private var line: Line? = null
    private var asking: Any? = null
    private var retry: ScheduledFuture<*>? = null

    private var watchdog: ScheduledFuture<*>? = null
    private var token: String? = null
    private var mayHurry = true
    private var paused = false
    private var stopped = false

    /** WebSockets in a row that never brought a frame; -1 once one did, then only they are used. */
    private var mute = 0

    /** The newest list; null before the first snapshot. */
    @Volatile
    public var list: FeedList? = fold.list
        private set

    private inner class Line(val kind: String) : Ears {
        lateinit var wire: Wire
        val openedAt: Long = now()
        var heardAt: Long = openedAt
        var silence: Long = Rules.FIRST_FRAME
        var begunAt: Long? = null
        var goodbyeMs: Long? = null

        /** With what a socket would have been closed, by what an event stream says last. */
        var code: Int? = null

        /** Nothing of it is heard any more; the next opens when it has closed. */
        var left = false

        /** It was let go by [pause]: the next opens without a pause. */
        var laidDown = false

        override fun heard(text: String) = onLoop(wait = true) { if (line === this && !left) hear(this, text) }

        override fun ended(ending: Ending) = onLoop { ended(this, ending) }
    }

    init {
        onLoop { open() }
    }

    /** Ends it. The listener gets one last call. */
    override fun close(): Unit = onLoop { finish(1000, "") }

    /** Lets the connection go, as when an app is put into the background. The list and its position stay. */
    public fun pause(): Unit = onLoop {
        if (stopped || paused) return@onLoop
        paused = true
        retry?.cancel(false)
        retry = null
        asking = null
        line?.let {
            it.laidDown = true
            leave(it)
        }
        tell { onState(State.Paused) }
    }

    /** Comes back at once to where it was. */
    public fun resume(): Unit = onLoop {
        if (stopped || !paused) return@onLoop
        paused = false
        // A line that is still closing opens the next when it has.
        if (line == null) open()
    }

    /**
     * The network is another one, or the machine woke: what stands is given up and opened anew without a pause, unless
     * the gateway asked for one.
     */
    public fun networkChanged(): Unit = onLoop {
        if (stopped || paused) return@onLoop
        val line = line
        when {
            line != null && line.goodbyeMs == null -> {
                line.left = true
                line.wire.cancel()
                forget(line)
                open()
            }
            retry != null && mayHurry -> open()
        }
    }

    private fun onLoop(wait: Boolean = false, task: () -> Unit) {
        // A defect in here ends no thread of OkHttp's.
        val safe = FutureTask<Unit> { runCatching(task).onFailure(::report) }
        try {
            loop.execute(safe)
            if (wait) safe.get()
        } catch (_: RejectedExecutionException) {
            // It has ended.
        } catch (_: InterruptedException) {
            Thread.currentThread().interrupt()
        }
    }

    private fun report(fault: Throwable) {
        Thread.getDefaultUncaughtExceptionHandler()?.uncaughtException(Thread.currentThread(), fault)
    }

    private fun tell(what: FeedListener.() -> Unit) {
        val told = FutureTask<Unit> { listener.what() }
        try {
            callbacks.execute(told)
            told.get()
        } catch (_: RejectedExecutionException) {
            // Nobody listens any more.
        } catch (e: ExecutionException) {
            // The listener's fault, which must not break the fold.
            report(e.cause ?: e)
        }
    }

    private fun open() {
        retry?.cancel(false)
        retry = null
        if (stopped || paused || line != null || asking != null) return
        tell { onState(State.Connecting) }
        if (tokens != null && token == null) return ask { open() }
        fold.rewind()
        val line = Line(if (events && mute >= SOCKETS_FIRST) "sse" else "ws")
        this.line = line
        line.wire = if (line.kind == "ws") {
            wires.socket(fold.position, token, line)
        } else {
            wires.stream(fold.position, token, line)
        }
        watch(line, line.silence)
    }

    /** Asks for a token, then goes on; one that does not come in time is asked for again later. */
    private fun ask(then: (String) -> Unit) {
        val question = Any()
        asking = question
        fun answered(given: String?) = onLoop {
            if (asking !== question || stopped) return@onLoop
            asking = null
            token = given
            when {
                given != null -> then(given)
                // A line that still lives goes on until its token ends, and asks again then.
                line == null -> later(rules.after(Ending(reason = "no token came"), null, null, true))
            }
        }
        val timer = loop.schedule({ answered(null) }, Rules.TOKEN_WITHIN, TimeUnit.MILLISECONDS)
        val asked = Thread({
            val given = runCatching { tokens?.token(feed) }.getOrNull()
            timer.cancel(false)
            answered(given)
        }, "tipcast-$feed-token")
        asked.isDaemon = true
        asked.start()
    }

    private fun hear(line: Line, text: String) {
        line.heardAt = now()
        try {
            val frame = Json.parseToJsonElement(text).jsonObject
            if ((frame["feed"]?.jsonPrimitive?.content ?: feed) == feed) heed(line, frame)
        } catch (_: RuntimeException) {
            // Not a frame of this protocol: the line is not to be trusted.
            leave(line)
        }
    }

    private fun heed(line: Line, frame: JsonObject) {
        val outcome = fold.take(frame)
        if (outcome == Outcome.Gap) return leave(line)
        when (frame.text("type")) {
            "snapshot", "resumed" -> {
                if (line.begunAt == null) line.begunAt = line.heardAt
                rules.begun()
                // A socket that works proves the way: event streams are for where none ever did.
                if (line.kind == "ws") mute = -1
                frame["keepalive_ms"]?.jsonPrimitive?.long?.takeIf { it > 0 }?.let {
                    line.silence = rules.silence(it)
                    // The timer that runs was set for the first frame, which may be later than this.
                    watch(line, line.silence)
                }
                tell { onState(State.Live(line.kind)) }
            }
            "goodbye" -> line.goodbyeMs = frame.long("reconnect_in_ms").coerceAtLeast(0)
            "error" -> if (line.kind == "sse") line.code = ENDED_BY[frame["code"]?.jsonPrimitive?.content]
            "token" -> if (tokens != null && asking == null) {
                ask { given ->
                    if (this.line === line) {
                        line.wire.send(buildJsonObject { put("type", "auth"); put("token", given) }.toString())
                    }
                }
            }
            "presence" -> frame.long("watchers").let { tell { onPresence(it) } }
            else -> {}
        }
        if (outcome is Outcome.Changed) {
            fold.list?.let { list ->
                this.list = list
                tell { onChange(list, outcome.change) }
            }
        }
    }

    /** One timer that looks when something was last heard, instead of one timer per frame. */
    private fun watch(line: Line, ms: Long) {
        watchdog?.cancel(false)
        watchdog = after(ms) {
            if (this.line !== line) return@after
            val left = line.heardAt + line.silence - now()
            if (left > 0) watch(line, left) else leave(line)
        }
    }

    /** Gives this line up. */
    private fun leave(line: Line) {
        if (line.left) return
        line.left = true
        watchdog?.cancel(false)
        watchdog = after(Rules.CLOSING) { line.wire.cancel(); ended(line, Ending()) }
        // What never stood has nobody to say goodbye to.
        if (line.begunAt == null) line.wire.cancel() else line.wire.close()
    }

    private fun forget(line: Line) {
        if (this.line === line) this.line = null
        watchdog?.cancel(false)
        watchdog = null
    }

    private fun ended(line: Line, ending: Ending) {
        if (this.line !== line) return
        forget(line)
        if (paused) return
        if (line.laidDown) return open()
        val known = line.code?.let { ending.copy(code = it) } ?: ending
        val begunAt = line.begunAt
        if (line.kind == "sse") {
            mute = SOCKETS_FIRST - 1
        } else if (begunAt == null && mute >= 0) {
            mute += 1
        }
        // A proxy that takes the upgrade away may let an event stream through.
        val noUpgrade = ending.status == NO_UPGRADE && line.kind == "ws" && events
        if (noUpgrade) mute = SOCKETS_FIRST
        val judged = if (noUpgrade) known.copy(status = null) else known
        later(rules.after(judged, begunAt?.let { now() - it }, line.goodbyeMs, tokens != null))
    }

    private fun later(next: Next) {
        when (next) {
            is Next.Stop -> finish(next.code, next.reason)
            is Next.Wait -> {
                if (next.newToken) token = null
                mayHurry = !next.asked
                retry = after(next.ms) { open() }
                tell { onState(State.Waiting(next.ms)) }
            }
        }
    }

    private fun finish(code: Int, reason: String) {
        if (stopped) return
        stopped = true
        retry?.cancel(false)
        watchdog?.cancel(false)
        line?.let { line ->
            if (line.begunAt == null) line.wire.cancel() else line.wire.close()
            // A gateway that does not answer the close keeps no socket of ours.
            loop.schedule({ line.wire.cancel() }, Rules.CLOSING, TimeUnit.MILLISECONDS)
        }
        line = null
        asking = null
        tell { onState(State.Closed(code, reason)) }
        loop.executeExistingDelayedTasksAfterShutdownPolicy = true
        loop.shutdown()
    }

    private fun after(ms: Long, task: () -> Unit): ScheduledFuture<*> =
        loop.schedule({ if (!stopped) task() }, ms, TimeUnit.MILLISECONDS)

    /** Only for differences. */
    private fun now(): Long = TimeUnit.NANOSECONDS.toMillis(System.nanoTime())

    /** What to watch, and how. */
    public class Builder(url: String, private val feed: String) {
        private val base: HttpUrl = url.trimEnd('/').replaceFirst(Regex("^ws(?=s?://)"), "http").toHttpUrl()
        private var client: OkHttpClient? = null
        private var tokens: TokenSource? = null
        private var start: FeedList? = null
        private var callbacks: Executor = Executor { it.run() }
        private var events = true
        private var without: String? = null
        internal var rules: Rules = Rules()
        internal var fold: (String, FeedList?) -> Fold = ::Fold

        init {
            require(NAME.matches(feed)) { "a feed is 1 to 64 of A-Z a-z 0-9 _ - ." }
        }

        /** An app's own client, whose connections and threads are shared. */
        public fun client(client: OkHttpClient): Builder = apply { this.client = client }

        /** For private feeds. */
        public fun token(tokens: TokenSource): Builder = apply { this.tokens = tokens }

        /** Goes on from this list, as [Watcher.list] had it. */
        public fun from(list: FeedList?): Builder = apply { start = list?.takeIf { it.feed == feed } }

        /** Where the listener is called, such as a main thread; it is waited for. By default the watcher's own thread. */
        public fun callbacks(executor: Executor): Builder = apply { callbacks = executor }

        /** false: sockets only, never an event stream. */
        public fun eventStream(allowed: Boolean): Builder = apply { events = allowed }

        /** Leaves totals, leaders and goals out of what the gateway sends; those of the list stay empty. */
        public fun withoutTotals(): Builder = apply { without = "totals" }

        /** Begins to watch. */
        public fun start(listener: FeedListener): Watcher {
            val wires = Wires(client ?: SHARED, base, feed, without)
            return Watcher(feed, wires, tokens, listener, callbacks, events, fold(feed, start), rules)
        }
    }

    private companion object {
        /** WebSockets in a row that never brought a frame, before an event stream is tried. */
        const val SOCKETS_FIRST = 2
        const val NO_UPGRADE = 426
        val NAME = Regex("[A-Za-z0-9_.-]{1,64}")
        val ENDED_BY = mapOf("unauthenticated" to 4001, "bad_token" to 4001, "forbidden" to 4003, "token_expired" to 4101)
        val SHARED: OkHttpClient by lazy { OkHttpClient() }
    }
}
