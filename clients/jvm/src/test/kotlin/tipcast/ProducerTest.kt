package tipcast

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.IOException
import java.net.InetAddress
import java.net.ServerSocket
import java.time.Duration

private fun rose(user: String, id: String? = null, delayMs: Long? = null) =
    Gift(User(user, user), GiftKind("rose", "Rose"), id = id, value = Value(150, "EUR"), delayMs = delayMs)

class ProducerTest {
    @Test
    fun `a gift is taken once, and what is wrong is said by field`(): Unit = Gateway.start().use { gateway ->
        val producer = gateway.producer()
        val first = producer.post("show", rose("ann", "g-1"))
        assertEquals("accepted", first.status)
        val again = producer.post("show", rose("ann", "g-1"))
        assertTrue(again.duplicate && again.row == first.row)
        val refused = assertThrows(Refused::class.java) { producer.post("show", rose("")) }
        assertEquals(422, refused.problem.status)
        assertEquals("/user/id", refused.problem.errors.first().pointer)
        val all = producer.postAll("show", List(130) { rose("u$it") } + rose(""))
        assertEquals(List(131) { it }, all.map { it.index })
        assertTrue(all.dropLast(1).all { it.error == null } && all.last().error != null)
        producer.post("show", rose("zoe", "later", delayMs = 600_000))
        producer.cancel("show", "later")
        producer.retract("show", all[129].row!!)
        assertEquals(404, assertThrows(Refused::class.java) { producer.retract("show", "none") }.problem.status)
    }

    @Test
    fun `a gateway that is away is tried again with the same id until the time is over`() {
        val nobody = Producer("http://127.0.0.1:1", retryFor = Duration.ofMillis(600))
        assertTrue(assertThrows(IOException::class.java) { nobody.post("show", rose("ann")) }.message!!.contains("tries"))
        // Takes two attempts and answers neither, then answers.
        ServerSocket(0, 10, InetAddress.getLoopbackAddress()).use { server ->
            val seen = mutableListOf<String>()
            val serving = Thread {
                repeat(3) { n ->
                    server.accept().use { socket ->
                        val input = socket.getInputStream()
                        val head = StringBuilder()
                        while (!head.endsWith("\r\n\r\n")) head.append(input.read().toChar())
                        val length = Regex("(?i)content-length: (\\d+)").find(head)!!.groupValues[1].toInt()
                        seen += String(input.readNBytes(length))
                        val body = """{"status":"accepted","id":"x"}"""
                        val answer = if (n == 1) "HTTP/1.1 503 No\r\nretry-after: 0\r\ncontent-length: 0" else
                            "HTTP/1.1 201 Yes\r\ncontent-length: ${body.length}"
                        if (n > 0) socket.getOutputStream().write("$answer\r\nconnection: close\r\n\r\n${if (n == 2) body else ""}".toByteArray())
                    }
                }
            }
            serving.start()
            val posted = Producer("http://127.0.0.1:${server.localPort}").post("show", rose("ann"))
            serving.join()
            assertEquals("accepted", posted.status)
            assertEquals(3, seen.size)
            assertEquals(1, seen.distinct().size)
            assertTrue(seen[0].contains("\"id\":"))
        }
    }

    @Test
    fun `a group hands out every entry, and what its handler threw at comes again`(): Unit = Gateway.start().use { gateway ->
        val producer = gateway.producer()
        producer.postAll("show", List(5) { rose("u$it", "g-$it") })
        val group = Group(producer, "show", "game")
        val seen = mutableListOf<String>()
        val fault = assertThrows(IllegalStateException::class.java) {
            group.step(0) { entry ->
                check(seen.size < 3) { "full" }
                seen += entry.gift!!.id
            }
        }
        assertEquals("full", fault.message)
        while (seen.size < 5) group.step(1_000) { entry -> seen += entry.gift!!.id }
        assertEquals(List(5) { "g-$it" }, seen)
        assertEquals(0, group.step(0) { })
        val reader = Thread { runCatching { group.consume { } } }
        reader.start()
        reader.interrupt()
        reader.join()
    }

    /** Stands in front of [gateway]: passes requests on, and loses the answers while [losing]. */
    private class Lossy(val gateway: Gateway) : AutoCloseable {
        @Volatile var losing = true
        private val server = ServerSocket(0, 10, InetAddress.getLoopbackAddress())
        val url = "http://127.0.0.1:${server.localPort}"
        private val serving = Thread {
            while (!server.isClosed) runCatching {
                server.accept().use { client ->
                    val to = java.net.URI(gateway.url)
                    java.net.Socket(to.host, to.port).use { behind ->
                        val input = client.getInputStream()
                        val head = StringBuilder()
                        while (!head.endsWith("\r\n\r\n")) head.append(input.read().toChar())
                        val length = Regex("(?i)content-length: (\\d+)").find(head)!!.groupValues[1].toInt()
                        val sent = head.toString().replace(Regex("(?i)connection: [^\r]*"), "Connection: close")
                        behind.getOutputStream().write(sent.toByteArray() + input.readNBytes(length))
                        val answer = behind.getInputStream().readAllBytes()
                        if (!losing) client.getOutputStream().write(answer)
                    }
                }
            }
        }.apply { start() }

        override fun close() {
            server.close()
            serving.join()
        }
    }

    @Test
    fun `a gift whose answer was lost is sent again with the id of the error`(): Unit = Gateway.start().use { gateway ->
        Lossy(gateway).use { lossy ->
            val producer = Producer(lossy.url, retryFor = Duration.ofMillis(100))
            val lost = assertThrows(Unavailable::class.java) { producer.post("show", rose("ann")) }
            val many = assertThrows(Unavailable::class.java) { producer.postAll("show", List(130) { rose("u$it") }) }
            assertTrue(lost.message!!.contains(lost.ids.single()))
            assertEquals(130, many.ids.distinct().size)
            lossy.losing = false
            val again = producer.post("show", rose("ann", lost.ids.single()))
            assertTrue(again.duplicate && again.id == lost.ids.single())
            producer.postAll("show", many.ids.mapIndexed { n, id -> rose("u$n", id) })
        }
        var entries = 0
        Group(gateway.producer(), "show", "game", max = 1_000).step(0) { entries += 1 }
        assertEquals(131, entries)
    }

    @Test
    fun `a consumer outlives an outage that is longer than its calls`(): Unit = Gateway.start().use { gateway ->
        val got = java.util.concurrent.LinkedBlockingQueue<String>()
        val hasty = Producer(gateway.url, retryFor = Duration.ofMillis(100))
        val logged = java.util.concurrent.LinkedBlockingQueue<String>()
        val handler = object : java.util.logging.Handler() {
            override fun publish(record: java.util.logging.LogRecord) { logged += record.message }
            override fun flush() {}
            override fun close() {}
        }
        val log = java.util.logging.Logger.getLogger("tipcast").apply { addHandler(handler); useParentHandlers = false }
        val reader = Thread { runCatching { Group(hasty, "show", "game").consume { entry -> got += entry.gift?.id.orEmpty() } } }
        fun next(from: java.util.concurrent.LinkedBlockingQueue<String>) =
            from.poll(30, java.util.concurrent.TimeUnit.SECONDS) ?: throw AssertionError("nothing came")
        try {
            reader.start()
            gateway.producer().post("show", rose("ann", "g-1"))
            assertEquals("g-1", next(got))
            gateway.crash {
                next(logged)
                assertTrue(reader.isAlive)
            }.use { back ->
                back.producer().post("show", rose("ann", "g-2"))
                while (next(got) != "g-2") Unit
            }
        } finally {
            reader.interrupt()
            reader.join()
            log.removeHandler(handler)
        }
    }

    @Test
    fun `entries without a gift, or with only its id, are handed out like all`(): Unit = Gateway.start().use { gateway ->
        gateway.call("PATCH", "policy", """{"totals":["session"],"points":{"EUR":1}}""")
        gateway.call("PUT", "goals/mic", """{"title":"Mic","period":"session","by":"points","target":100}""")
        gateway.producer().post("show", rose("ann", "g-1"))
        gateway.call("POST", "gifts/g-1/retract", null)
        val seen = mutableListOf<String>()
        Group(gateway.producer(), "show", "game").step(0) { entry -> seen += "${entry.type} ${entry.gift?.id}" }
        assertEquals(listOf("gift.accepted g-1", "goal.reached null", "gift.retracted g-1"), seen)
    }
}
