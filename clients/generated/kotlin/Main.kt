import tipcast.apis.DropsApi
import tipcast.apis.ProducerApi
import tipcast.apis.ReportsApi
import tipcast.apis.WatchingApi
import tipcast.infrastructure.ClientError
import tipcast.infrastructure.ClientException
import tipcast.infrastructure.Serializer
import tipcast.models.*

private const val FEED = "kotlin"

private fun check(what: String, vararg facts: Boolean) = check(facts.all { it }) { what }

private fun rose(user: String, id: String) = Gift(user = User(user, user), gift = GiftKind("rose", "Rose"), id = id)

/** The calls of README.md with the client that openapi-generator makes for Kotlin. */
fun main() {
    // What is not given is left out: null is no value of any field.
    Serializer.kotlinxSerializationJsonConfiguration = { explicitNulls = false }
    val url = System.getenv("TIPCAST_URL")
    val producer = ProducerApi(url)
    val drops = DropsApi(url)
    val reports = ReportsApi(url)

    val gift = rose("ann", "g-1").copy(`value` = Money(150, "EUR"))
    val first = producer.publishGift(FEED, gift)
    check("post", first.status == GiftStatus.GIFT_STATUS_ACCEPTED, first.seq == 1L, first.duplicate == null)
    val again = producer.publishGift(FEED, gift)
    check("post again", again.duplicate == true, again.row == first.row)

    val batch = producer.publishGiftBatch(FEED, GiftBatch(listOf(rose("bob", "g-2"), rose("ann", "g-1").copy(test = true))))
    check("batch", batch.accepted == 1L, batch.rejected == 1L, batch.results[1].error?.status == 422)

    val refused = runCatching { producer.publishGift("not a feed", gift) }.exceptionOrNull() as ClientException
    val problem = Serializer.kotlinxSerializationJson.decodeFromString<Problem>((refused.response as ClientError<*>).body as String)
    check("4xx", refused.statusCode == 422, problem.type.startsWith("/problems/"), problem.status == 422)

    val policy = producer.updatePolicy(FEED, PolicyPatch(capacity = 5, rowTtlMs = 60_000))
    check("policy", policy.capacity == 5L, producer.getPolicy(FEED).rowTtlMs == 60_000L)

    val later = producer.publishGift(FEED, rose("cyd", "g-3").copy(delayMs = 600_000))
    check("scheduled", later.status == GiftStatus.GIFT_STATUS_SCHEDULED, producer.listScheduledGifts(FEED).scheduled[0].id == "g-3")
    check("cancelled", producer.cancelScheduledGift(FEED, "g-3").status == CancelledStatus.CANCELLED_STATUS_CANCELLED)

    val spec = DropSpec(gift = GiftKind("r", "R"), total = 3, perUser = 2)
    check("drop", drops.defineDrop(FEED, "rocket", spec).free == 3L)
    val sold = drops.claimDrop(FEED, "rocket", DropClaim(id = "c-1", user = User("ann", "Ann"), pay = PaymentTime.PAYMENT_TIME_NOW))
    val held = drops.claimDrop(FEED, "rocket", DropClaim(id = "c-2", user = User("bob", "Bob"), pay = PaymentTime.PAYMENT_TIME_LATER))
    check("claims", sold.status == ClaimStatus.CLAIM_STATUS_SOLD, held.status == ClaimStatus.CLAIM_STATUS_HELD)
    check("confirmed", drops.confirmHold(FEED, held.hold!!).status == ClaimStatus.CLAIM_STATUS_SOLD)

    val entries = reports.claimEntries(FEED, "game", GroupClaim("c")).propertyEntries
    check("entries", entries.size == 4, entries[0].gift?.id == "g-1")
    val acked = reports.ackEntries(FEED, "game", EntryCursors(entries.map { it.cursor }))
    check("ack", acked.acked == 4L, acked.unknown == 0L)

    check("read", WatchingApi(url).getFeed(FEED).rows.last().user.name == "ann")
    // Every type of entry that there is, and one that there is not yet.
    val samples = ReportsApi(System.getenv("SAMPLES_URL"))
    val seen = mutableListOf<LedgerEntry>()
    while (true) {
        val some = samples.claimEntries(FEED, "game", GroupClaim("c")).propertyEntries
        if (some.isEmpty()) break
        seen += some
        check("ack samples", samples.ackEntries(FEED, "game", EntryCursors(some.map { it.cursor })).acked == some.size.toLong())
    }
    val types = seen.map { it.type }.toSet()
    val sums = seen.sumOf { it.delta?.count ?: 0 } to seen.sumOf { it.delta?.value?.amount ?: 0 }
    check("samples", seen.size == 10, types.size == 10, "gift.polished" in types, sums == 7L to 5740L)
    println("ok")
}
