package tipcast

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.File

class RehearseTest {
    private fun rehearse(broken: String, vararg more: String): Pair<Int, String> {
        val java = File(System.getProperty("java.home"), "bin/java").path
        val client = listOf(java, "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), "tipcast.RehearsedKt")
        val process = ProcessBuilder(listOf(Gateway.rehearse, "--slack-ms", "15000") + more + "--" + client)
            .redirectErrorStream(true).apply { environment()["BREAK"] = broken }.start()
        process.outputStream.close()
        val told = process.inputStream.bufferedReader().readText()
        return process.waitFor() to told
    }

    @Test
    fun `it does everything right on a gateway's bad days`() {
        val (code, told) = rehearse("")
        assertEquals(0, code, told)
        assertTrue(told.contains("20 played, 0 failed"), told)
    }

    @Test
    fun `a watcher that is broken on purpose fails where it is`() {
        for ((broken, fails) in mapOf("gap" to "gap", "pause" to "goodbye", "stop" to "refused", "silence" to "silence", "token" to "token-ends", "without" to "without")) {
            val (code, told) = rehearse(broken, "--only", "plain,$fails")
            assertEquals(1, code, told)
            val failed = told.lines().filter { it.startsWith("FAILED") }
            assertTrue(failed.size == 1 && failed[0].contains(fails), "$broken: $told")
        }
    }
}
