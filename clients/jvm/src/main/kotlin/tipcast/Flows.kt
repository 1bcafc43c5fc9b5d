package tipcast

import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.channels.awaitClose
import kotlinx.coroutines.channels.trySendBlocking
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.buffer
import kotlinx.coroutines.flow.callbackFlow
import java.io.IOException

/** An event of a watcher, as a value. */
public sealed class FeedEvent {
    public data class Changed(val list: FeedList, val change: Change) : FeedEvent()

    public data class StateChanged(val state: State) : FeedEvent()

    public data class Presence(val watchers: Long) : FeedEvent()
}

/** The gateway wants no more attempts: [code] is its close code or the status of its answer. */
public class WatchEnded(public val code: Int, reason: String) :
    IOException("the gateway ended it with $code${if (reason.isEmpty()) "" else ": $reason"}")

/**
 * Everything that happens, in order, while it is collected; each change once. A slow collector holds its own connection
 * back, and the gateway folds what waits. Ends with [WatchEnded] when the gateway wants no more attempts.
 */
public fun Watcher.Builder.events(): Flow<FeedEvent> = callbackFlow {
    val watcher = start(object : FeedListener {
        override fun onChange(list: FeedList, change: Change) {
            trySendBlocking(FeedEvent.Changed(list, change))
        }

        override fun onState(state: State) {
            trySendBlocking(FeedEvent.StateChanged(state))
            if (state is State.Closed) close(WatchEnded(state.code, state.reason).takeIf { state.code != CLOSED_BY_US })
        }

        override fun onPresence(watchers: Long) {
            trySendBlocking(FeedEvent.Presence(watchers))
        }
    })
    awaitClose { watcher.close() }
}.buffer(EVENTS)

/** The list, whenever it is another one; a slow collector gets the newest. Ends as [events] does. */
public fun Watcher.Builder.lists(): Flow<FeedList> = callbackFlow {
    val watcher = start(object : FeedListener {
        override fun onChange(list: FeedList, change: Change) {
            trySend(list)
        }

        override fun onState(state: State) {
            if (state is State.Closed) close(WatchEnded(state.code, state.reason).takeIf { state.code != CLOSED_BY_US })
        }
    })
    awaitClose { watcher.close() }
}.buffer(Channel.CONFLATED)

private const val CLOSED_BY_US = 1000

/** Events that wait for a collector, before the connection does. */
private const val EVENTS = 64
