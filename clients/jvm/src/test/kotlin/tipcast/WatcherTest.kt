package tipcast

import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.takeWhile
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.net.ServerSocket
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit

/** Generous: the machine may be busy. */
private const val PATIENCE_MS = 90_000L

private class Told : FeedListener {
    val states = LinkedBlockingQueue<State>()
    val lists = LinkedBlockingQueue<FeedList>()

    override fun onChange(list: FeedList, change: Change) {
        lists.add(list)
    }

    override fun onState(state: State) {
        states.add(state)
    }

    fun list(wanted: (FeedList) -> Boolean): FeedList = wait(lists, wanted)

    fun state(wanted: (State) -> Boolean): State = wait(states, wanted)

    private fun <T> wait(queue: LinkedBlockingQueue<T>, wanted: (T) -> Boolean): T {
        val until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS)
        while (true) {
            val next = queue.poll(until - System.nanoTime(), TimeUnit.NANOSECONDS) ?: error("it did not come")
            if (wanted(next)) return next
        }
    }
}

private fun rose(user: String, id: String? = null) = Gift(User(user, user), GiftKind("rose", "Rose"), id = id)

class WatcherTest {
    @Test
    fun `it shows every gift, also after the gateway was killed, and resumes after a pause`() {
        var gateway = Gateway.start()
        try {
            val told = Told()
            Watcher.Builder(gateway.url, "show").start(told).use { watcher ->
                told.list { it.seq == 0L }
                gateway.producer().post("show", rose("ann"))
                assertEquals("ann", told.list { it.rows.size == 1 }.rows[0].user.id)
                gateway = gateway.crash()
                gateway.producer().post("show", rose("bob"))
                assertEquals(listOf("bob", "ann"), told.list { it.rows.size == 2 }.rows.map { it.user.id })
                watcher.pause()
                told.state { it == State.Paused }
                gateway.producer().post("show", rose("cyd"))
                told.states.clear()
                watcher.resume()
                assertEquals(listOf("cyd", "bob", "ann"), told.list { it.rows.size == 3 }.rows.map { it.user.id })
                watcher.networkChanged()
                told.state { it == State.Live("ws") }
                assertEquals(3, watcher.list?.rows?.size)
            }
            assertEquals(State.Closed(1000, ""), told.state { it is State.Closed })
        } finally {
            gateway.close()
        }
    }

    @Test
    fun `a list that was put away goes on where it was`(): Unit = Gateway.start().use { gateway ->
        gateway.producer().post("show", rose("ann"))
        val kept = runBlocking { withTimeout(PATIENCE_MS) { Watcher.Builder(gateway.url, "show").lists().first() } }
        gateway.producer().post("show", rose("bob"))
        val back = FeedList.fromJson(kept.toJson())
        assertEquals(kept, back)
        val told = Told()
        Watcher.Builder(gateway.url, "show").from(back).start(told).use {
            assertEquals(listOf("bob", "ann"), told.list { true }.rows.map { it.user.id })
        }
        assertNull(FeedList.fromJson("{}"))
    }

    @Test
    fun `a flow has each change once and in order, and its collector may be slow`(): Unit = Gateway.start().use { gateway ->
        gateway.producer().call("PATCH", listOf("feeds", "show", "policy"), json.parseToJsonElement("""{"dedup":"off"}"""), kotlinx.serialization.json.JsonElement.serializer())
        val events = runBlocking {
            withTimeout(PATIENCE_MS) {
                var sent = false
                Watcher.Builder(gateway.url, "show").events().takeWhile { event ->
                    if (!sent && event is FeedEvent.Changed) {
                        sent = true
                        gateway.producer().suspending { postAll("show", List(40) { rose("u$it") }) }
                    }
                    !(event is FeedEvent.Changed && event.list.seq >= 40)
                }.toList()
            }
        }
        val seqs = events.filterIsInstance<FeedEvent.Changed>().map { it.list.seq }
        assertEquals(seqs.sorted().distinct(), seqs)
    }

    @Test
    fun `where sockets do not get through an event stream does`(): Unit = Gateway.start().use { gateway ->
        NoUpgrades(gateway.url).use { proxy ->
            val told = Told()
            Watcher.Builder(proxy.url, "show").start(told).use {
                told.state { it == State.Live("sse") }
                gateway.producer().post("show", rose("ann"))
                assertEquals("ann", told.list { it.rows.size == 1 }.rows[0].user.id)
            }
        }
    }

    @Test
    fun `a gateway that wants no more attempts is told of`(): Unit = Gateway.start().use { gateway ->
        val builder = { Watcher.Builder(gateway.url, "private") }
        gateway.producer().call("PATCH", listOf("feeds", "private", "policy"), json.parseToJsonElement("""{"visibility":"private"}"""), kotlinx.serialization.json.JsonElement.serializer())
        val ended = assertThrows(WatchEnded::class.java) {
            runBlocking { withTimeout(PATIENCE_MS) { builder().lists().first() } }
        }
        assertEquals(4001, ended.code)
        assertThrows(IllegalArgumentException::class.java) { Watcher.Builder(gateway.url, "not a name") }
    }

    @Test
    fun `a listener that throws breaks nothing`(): Unit = Gateway.start().use { gateway ->
        val told = Told()
        val thrower = object : FeedListener {
            override fun onChange(list: FeedList, change: Change) {
                told.onChange(list, change)
                error("the listener's own fault")
            }
        }
        Watcher.Builder(gateway.url, "show").start(thrower).use {
            told.list { true }
            gateway.producer().post("show", rose("ann"))
            assertTrue(told.list { it.rows.isNotEmpty() }.rows.size == 1)
        }
    }
}

/** A proxy that takes the upgrade out of requests, as some do. */
private class NoUpgrades(gateway: String) : AutoCloseable {
    private val listener = ServerSocket(0)
    private val port = gateway.substringAfterLast(':').toInt()
    val url: String = "http://127.0.0.1:${listener.localPort}"

    init {
        daemon { while (true) listener.accept().let { client -> daemon { serve(client) } } }
    }

    private fun daemon(task: () -> Unit) = Thread { runCatching(task) }.apply { isDaemon = true }.start()

    private fun serve(client: java.net.Socket) = client.use {
        java.net.Socket("127.0.0.1", port).use { server ->
            val head = StringBuilder()
            val input = client.getInputStream()
            while (!head.endsWith("\r\n\r\n")) head.append(input.read().also { check(it >= 0) }.toChar())
            val kept = head.lines().filterNot { it.startsWith("Upgrade", true) || it.startsWith("Connection", true) }
            server.getOutputStream().write(kept.joinToString("\r\n").replaceFirst("\r\n", "\r\nConnection: close\r\n").toByteArray())
            server.getInputStream().copyTo(client.getOutputStream(), 1024)
        }
    }

    override fun close() = listener.close()
}
