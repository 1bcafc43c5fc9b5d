package tipcast

import java.io.Closeable
import java.io.File
import java.net.URI
import java.net.http.HttpClient
import java.net.http.HttpRequest
import java.net.http.HttpResponse
import java.nio.file.Files
import java.util.concurrent.TimeUnit

/** A gateway of a test's own, on a free port and an empty folder. */
internal class Gateway private constructor(private val folder: File, private val process: Process, val url: String) : Closeable {
    fun producer(): Producer = Producer(url)

    /** A call below the feed `show` that no client has. */
    fun call(method: String, path: String, body: String?): String {
        val publisher = body?.let(HttpRequest.BodyPublishers::ofString) ?: HttpRequest.BodyPublishers.noBody()
        val request = HttpRequest.newBuilder(URI("$url/v1/feeds/show/$path")).method(method, publisher)
        if (body != null) request.header("content-type", "application/json")
        val client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build()
        val answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString())
        check(answer.statusCode() in 200..299) { answer.body() }
        return answer.body()
    }

    override fun close() {
        stop()
        folder.deleteRecursively()
    }

    private fun stop() {
        process.destroy()
        if (!process.waitFor(60, TimeUnit.SECONDS)) process.destroyForcibly().waitFor()
    }

    /** kill -9, and up again at the same address. [away] runs in between. */
    fun crash(away: () -> Unit = {}): Gateway {
        process.destroyForcibly().waitFor()
        away()
        return serve(url.substringAfter("//"), folder)
    }

    companion object {
        val binary: String = System.getenv("TIPCAST") ?: File("../../target/debug/tipcast").canonicalPath

        /** Beside it. */
        val rehearse: String = File(binary).resolveSibling("tipcast-rehearse").path

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
