package tipcast

import okhttp3.HttpUrl
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.Response
import okhttp3.WebSocket
import okhttp3.WebSocketListener
import okhttp3.sse.EventSource
import okhttp3.sse.EventSourceListener
import okhttp3.sse.EventSources
import java.util.concurrent.TimeUnit

/** A connection, or the attempt at one. */
internal interface Wire {
    /** Ends it politely; [Ears.ended] follows in time, or never. */
    fun close()

    /** Ends it at once. */
    fun cancel()

    fun send(text: String)
}

/** Who listens to a wire. Called from its own threads; [ended] once, and nothing after it. */
internal interface Ears {
    /** Returns when the frame has been dealt with: a slow listener holds the gateway back, and is folded forward there. */
    fun heard(text: String)

    fun ended(ending: Ending)
}

/** The largest frame that is read; PROTOCOL.md says 2 MiB. */
internal const val LARGEST: Int = 4 * 1024 * 1024

internal class Wires(
    client: OkHttpClient,
    private val base: HttpUrl,
    private val feed: String,
    private val without: String? = null,
) {
    private val client: OkHttpClient = client.newBuilder()
        // One attempt at a time, by our own rules; a redirect of a handshake is no gateway's.
        .retryOnConnectionFailure(false)
        .followRedirects(false)
        .followSslRedirects(false)
        .connectTimeout(Rules.FIRST_FRAME, TimeUnit.MILLISECONDS)
        // Silence is judged by frames.
        .readTimeout(0, TimeUnit.MILLISECONDS)
        .callTimeout(0, TimeUnit.MILLISECONDS)
        .pingInterval(0, TimeUnit.MILLISECONDS)
        .build()
    private val streams = EventSources.createFactory(this.client)

    private fun request(kind: String, since: String?, token: String?): Request {
        val url = base.newBuilder().addPathSegments("v1/feeds").addPathSegment(feed).addPathSegment(kind)
        if (since != null) url.addQueryParameter("since", since)
        if (without != null) url.addQueryParameter("without", without)
        val request = Request.Builder().url(url.build())
        if (token != null) request.header("Authorization", "Bearer $token")
        return request.build()
    }

    fun socket(since: String?, token: String?, ears: Ears): Wire {
        val socket = client.newWebSocket(request("ws", since, token), object : WebSocketListener() {
            override fun onMessage(webSocket: WebSocket, text: String) {
                if (text.length > LARGEST) webSocket.close(1009, null) else ears.heard(text)
            }

            override fun onClosing(webSocket: WebSocket, code: Int, reason: String) {
                webSocket.close(1000, null)
                ears.ended(Ending(code, reason))
            }

            override fun onFailure(webSocket: WebSocket, t: Throwable, response: Response?) =
                ears.ended(ending(t, response))
        })
        return object : Wire {
            override fun close() {
                socket.close(1000, null)
            }

            override fun cancel() = socket.cancel()

            override fun send(text: String) {
                socket.send(text)
            }
        }
    }

    fun stream(since: String?, token: String?, ears: Ears): Wire {
        val source = streams.newEventSource(request("sse", since, token), object : EventSourceListener() {
            override fun onEvent(eventSource: EventSource, id: String?, type: String?, data: String) = ears.heard(data)

            override fun onClosed(eventSource: EventSource) = ears.ended(Ending())

            override fun onFailure(eventSource: EventSource, t: Throwable?, response: Response?) =
                ears.ended(ending(t, response))
        })
        return object : Wire {
            override fun close() {
                source.cancel()
                ears.ended(Ending())
            }

            override fun cancel() = source.cancel()

            override fun send(text: String) {}
        }
    }

    private fun ending(cause: Throwable?, response: Response?): Ending {
        val status = response?.code?.takeIf { it != 101 && it != 200 }
        val reason = if (status != null) "the gateway answered $status" else cause?.message.orEmpty()
        // A date is for those who have a clock that is right.
        val seconds = response?.header("Retry-After")?.toLongOrNull()?.coerceIn(0, 86_400)
        return Ending(LOST, reason, status, seconds?.times(1_000))
    }
}
