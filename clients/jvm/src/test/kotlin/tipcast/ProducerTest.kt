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
                seen += entry.gift!!.id!!
            }
        }
        assertEquals("full", fault.message)
        while (seen.size < 5) group.step(1_000) { entry -> seen += entry.gift!!.id!! }
        assertEquals(List(5) { "g-$it" }, seen)
        assertEquals(0, group.step(0) { })
        val reader = Thread { runCatching { group.consume { } } }
        reader.start()
        reader.interrupt()
        reader.join()
    }
}
