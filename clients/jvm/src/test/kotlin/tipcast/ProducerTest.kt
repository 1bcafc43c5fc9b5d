package tipcast

import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.put
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
    fun `what has no function is called by its path`(): Unit = Gateway.start().use { gateway ->
        val producer = gateway.producer()
        producer.call("PATCH", listOf("feeds", "show", "policy"), body = buildJsonObject { put("capacity", 3) })
        val policy = producer.call("GET", listOf("feeds", "show", "policy")).jsonObject
        assertEquals(3, policy.getValue("capacity").jsonPrimitive.int)
        producer.call("PUT", listOf("feeds", "show", "blocks"), mapOf("user" to ".."))
        val blocks = producer.call("GET", listOf("feeds", "show", "blocks")).jsonObject.getValue("blocks").jsonArray
        assertEquals("..", blocks.single().jsonObject.getValue("user").jsonPrimitive.content)
        val refused = assertThrows(Refused::class.java) { producer.call("GET", listOf("feeds", "show", "groups", "nobody")) }
        assertEquals(404, refused.problem.status)
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

    /** Consumes until [enough] says so and everything is acknowledged, with no dead letter. */
    private fun consume(gateway: Gateway, handlers: Map<String, EntryHandler>, enough: () -> Boolean) {
        val log = java.util.logging.Logger.getLogger("tipcast").apply { useParentHandlers = false }
        val reader = Thread { runCatching { Group(gateway.producer(), "show", "game").consume(handlers) } }
        val until = System.nanoTime() + 60_000_000_000
        var state = ""
        try {
            reader.start()
            while (System.nanoTime() < until) {
                Thread.sleep(20)
                state = runCatching { gateway.call("GET", "groups/game", null) }.getOrDefault("no group yet")
                if (enough() && listOf("lag", "pending", "dead").all { "\"$it\":0" in state }) return
            }
            throw AssertionError("$state ${enough()}")
        } finally {
            reader.interrupt()
            reader.join()
            log.useParentHandlers = true
        }
    }

    @Test
    fun `what a handler throws at comes again alone, and its neighbours go on`(): Unit = Gateway.start().use { gateway ->
        gateway.producer().postAll("show", List(5) { rose("u$it", "g-$it") })
        val seen = java.util.Collections.synchronizedList(mutableListOf<String>())
        consume(gateway, mapOf("*" to EntryHandler { entry ->
            check(entry.gift!!.id != "g-1" || entry.attempt > 1) { "not now" }
            if (entry.gift!!.id == "g-3" && entry.attempt == 1) TODO("an error that is no exception")
            seen += entry.gift!!.id
        })) { seen.size == 5 }
        assertEquals(listOf("g-0", "g-2", "g-4"), seen.take(3))
        val reader = Thread { runCatching { Group(gateway.producer(), "show", "game").consume { } } }
        reader.start()
        reader.interrupt()
        reader.join()
    }

    @Test
    fun `a backend that is away for a while loses nothing and kills nothing`(): Unit = Gateway.start().use { gateway ->
        gateway.producer().postAll("show", List(40) { rose("u$it", "g-$it") })
        val seen = java.util.Collections.synchronizedSet(mutableSetOf<String>())
        val tries = java.util.concurrent.atomic.AtomicInteger()
        consume(gateway, mapOf("*" to EntryHandler { entry ->
            check(tries.incrementAndGet() > 5) { "no database" }
            seen += entry.gift!!.id
        })) { seen.size == 40 }
    }

    @Test
    fun `entries go to the handler of their type, and others are acknowledged`(): Unit = Gateway.start().use { gateway ->
        val producer = gateway.producer()
        gateway.call("PUT", "drops/rocket", """{"gift":{"id":"r","name":"R"},"total":3}""")
        assertEquals("sold", producer.sell("show", "rocket", DropClaim(User("u", "U"), "now")).status)
        val held = producer.sell("show", "rocket", DropClaim(User("v", "V"), "later"))
        assertEquals("sold", producer.confirm("show", held.hold!!).status)
        producer.release("show", producer.sell("show", "rocket", DropClaim(User("w", "W"), "later")).hold!!)
        producer.post("show", rose("ann", "g-1").copy(value = Value(500, "EUR"), combo = Combo("run", 3, end = true)))
        producer.post("show", rose("bob", "g-2").copy(test = true))
        producer.refund("show", "g-1", 100, "half of it")
        producer.retractGift("show", "g-1", "chargeback")
        val seen = java.util.Collections.synchronizedList(mutableListOf<String>())
        fun named(name: String) = EntryHandler { entry -> seen += "$name ${entry.type} ${entry.reason} ${entry.delta?.value?.amount}" }
        val handlers = mapOf("drop.sold" to named("sale"), "gift.refunded" to named("money"), "gift.retracted" to named("money"))
        consume(gateway, handlers) { seen.size == 4 }
        val sale = "sale drop.sold null null"
        assertEquals(listOf(sale, sale, "money gift.refunded half of it -100", "money gift.retracted chargeback -400"), seen)
    }

    @Test
    fun `a repeat is known, and money and memory are one transaction`() {
        val file = java.nio.file.Files.createTempFile("tipcast", ".db")
        java.sql.DriverManager.getConnection("jdbc:sqlite:$file").use { database ->
            fun run(sql: String) = database.createStatement().use { it.execute(sql) }
            run("CREATE TABLE accounts (coins INTEGER NOT NULL)")
            run("INSERT INTO accounts VALUES (0)")
            val store = EventStore(database)
            repeat(2) { store.create() }
            fun credit(event: String, fails: Boolean = false) = store.once(Entry(cursor = "17", eventId = event)) { connection ->
                connection.createStatement().use { it.execute("UPDATE accounts SET coins = coins + 5") }
                check(!fails) { "killed" }
            }
            assertThrows(IllegalStateException::class.java) { credit("show/17", fails = true) }
            assertEquals(listOf(true, false, false, true), listOf("show/17", "show/17", "show/17", "show/18").map { credit(it) })
            assertThrows(IllegalArgumentException::class.java) { credit("show/1'); DROP TABLE accounts; --") }
            assertTrue(database.autoCommit)
            val coins = database.createStatement().use { it.executeQuery("SELECT coins FROM accounts").apply { next() }.getInt(1) }
            assertEquals(10, coins)
        }
        java.nio.file.Files.delete(file)
    }

    @Test
    fun `a database that goes away costs no entry and counts none twice`() {
        val at = System.getenv("TIPCAST_POSTGRES_JDBC")
        org.junit.jupiter.api.Assumptions.assumeTrue(at != null, "there is no PostgreSQL")
        val source = org.postgresql.ds.PGSimpleDataSource().apply { setUrl(at) }
        fun <T> query(sql: String, read: (java.sql.Statement) -> T): T =
            source.connection.use { connection -> connection.createStatement().use { it.run { execute(sql); read(this) } } }
        query("CREATE TABLE jvm_accounts (coins INTEGER NOT NULL)") {}
        query("INSERT INTO jvm_accounts VALUES (0)") {}
        val store = EventStore(source, "jvm_events")
        repeat(2) { store.create() }
        fun credit(n: Int, ends: Boolean = false) = store.once(Entry(cursor = "$n", eventId = "show/$n")) { connection ->
            connection.createStatement().use {
                it.execute("UPDATE jvm_accounts SET coins = coins + 5")
                if (ends) it.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            }
        }
        // Two at once have each entry once between them.
        val threads = List(2) { Thread { repeat(50) { n -> credit(n) } }.apply { start() } }
        threads.forEach { it.join() }
        // Killed inside the transaction: nothing of it is there, and the next call has a connection.
        repeat(2) { assertThrows(java.sql.SQLException::class.java) { credit(100, ends = true) } }
        assertEquals(listOf(true, false, true), listOf(100, 100, 101).map { credit(it) })
        assertEquals(52 * 5, query("SELECT coins FROM jvm_accounts") { it.resultSet.apply { next() }.getInt(1) })
        // One connection, which is lost: it is closed, and says so at the next call.
        source.connection.use { connection ->
            val single = EventStore(connection, "jvm_events")
            assertThrows(java.sql.SQLException::class.java) {
                single.once(Entry(cursor = "1", eventId = "show/200")) {
                    it.createStatement().use { statement -> statement.execute("SELECT pg_terminate_backend(pg_backend_pid())") }
                }
            }
            assertTrue(connection.isClosed)
        }
    }

    /** Is in front of [gateway]: passes requests on, and loses the answers while [losing]. */
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
