package tipcast

import java.util.concurrent.CountDownLatch

/**
 * The watcher as `tipcast-rehearse` plays with it: prints its list each time that it has changed. BREAK names what it
 * does wrong, to show that a rehearsal sees it.
 */
public fun main() {
    val broken = System.getenv("BREAK").orEmpty()
    var tokens = 0
    val builder = Watcher.Builder(System.getenv("TIPCAST_URL"), System.getenv("TIPCAST_FEED"))
        .token { "token-${if (broken == "token") 1 else ++tokens}" }
    if (System.getenv("TIPCAST_WITHOUT") == "totals" && broken != "without") builder.withoutTotals()
    builder.rules = Broken(broken)
    builder.fold = { feed, start -> if (broken == "gap") Careless(feed, start) else Fold(feed, start) }
    builder.start(object : FeedListener {
        override fun onChange(list: FeedList, change: Change) {
            val rows = list.rows.joinToString(",") { row -> "\"${row.row}${if (row.rev == 1L) "" else "@${row.rev}"}\"" }
            println("""{"position":"${list.position}","rows":[$rows]}""")
        }
    })
    // Until it is killed.
    CountDownLatch(1).await()
}

private class Broken(private val how: String) : Rules() {
    override fun silence(keepaliveMs: Long): Long = if (how == "silence") 3_600_000 else super.silence(keepaliveMs)

    override fun after(ending: Ending, livedMs: Long?, goodbyeMs: Long?, canAsk: Boolean): Next =
        when (val next = super.after(ending, livedMs, goodbyeMs, canAsk)) {
            is Next.Wait -> if (how == "pause") next.copy(ms = 0) else next
            is Next.Stop -> if (how == "stop") Next.Wait(0) else next
        }
}

/** Takes whatever comes. */
private class Careless(feed: String, start: FeedList?) : Fold(feed, start) {
    override fun follow(at: Long, ops: List<Op>, last: Long): Boolean = true
}
