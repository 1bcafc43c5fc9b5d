package tipcast

import java.io.Closeable
import java.io.File
import java.nio.file.Files
import java.util.concurrent.TimeUnit

/** A gateway of a test's own, on a free port and an empty folder. */
internal class Gateway private constructor(private val folder: File, private val process: Process, val url: String) : Closeable {
    fun producer(): Producer = Producer(url)

    override fun close() {
        stop()
        folder.deleteRecursively()
    }

    private fun stop() {
        process.destroy()
        if (!process.waitFor(60, TimeUnit.SECONDS)) process.destroyForcibly().waitFor()
    }

    /** kill -9, and up again at the same address. */
    fun crash(): Gateway {
        process.destroyForcibly().waitFor()
        return serve(url.substringAfter("//"), folder)
    }

    companion object {
        val binary: String = System.getenv("TIPCAST") ?: File("../../target/debug/tipcast").canonicalPath

        fun start(): Gateway = serve("127.0.0.1:0", Files.createTempDirectory("tipcast").toFile())

        private fun serve(address: String, folder: File): Gateway {
            val process = ProcessBuilder(binary, "--listen", address, "--data-dir", folder.resolve("data").path)
                .redirectError(ProcessBuilder.Redirect.DISCARD).start()
            val line = process.inputStream.bufferedReader().readLine().orEmpty()
            check(line.startsWith("listening on ")) { "the gateway does not listen: $line" }
            return Gateway(folder, process, line.removePrefix("listening on ").trim())
        }
    }
}
