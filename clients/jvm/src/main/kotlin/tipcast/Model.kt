package tipcast

import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject

/** What later versions add is passed over; what is not there is left out. */
internal val json: Json = Json {
    ignoreUnknownKeys = true
    explicitNulls = false
    encodeDefaults = false
}

/** Who gives. [name] is a stranger's text: show it as text. [anonymous] users are counted and never ranked. */
@Serializable
public data class User @JvmOverloads constructor(
    val id: String,
    val name: String,
    val avatar: String? = null,
    val anonymous: Boolean = false,
)

/** Which gift it is, not how many. */
@Serializable
public data class GiftKind @JvmOverloads constructor(val id: String, val name: String, val icon: String? = null)

/** Money, in minor units of its currency: 150 EUR is €1.50. */
@Serializable
public data class Value(val amount: Long, val currency: String)

/** A run of gifts; [count] is cumulative. */
@Serializable
public data class Combo @JvmOverloads constructor(val id: String, val count: Long, val end: Boolean = false)

/** Of a sale: the drop, and how many were free right after it. */
@Serializable
public data class Sale(val drop: String, val left: Long)

/** One line of the ticker. Times are RFC 3339 in UTC. [message] is a stranger's text: show it as text. */
@Serializable
public data class Row(
    val row: String,
    val rev: Long,
    val seq: Long,
    val user: User,
    val gift: GiftKind,
    val count: Long,
    val at: String,
    @SerialName("updated_at") val updatedAt: String,
    @SerialName("expires_at") val expiresAt: String? = null,
    val value: Value? = null,
    val message: String? = null,
    val tier: Int? = null,
    val combo: Combo? = null,
    val drop: Sale? = null,
    val test: Boolean = false,
    val meta: JsonObject? = null,
)

/** A limited gift as it stands; always free + held + sold = total. */
@Serializable
public data class Drop(
    val drop: String,
    val state: String,
    val total: Long,
    val free: Long,
    val held: Long,
    val sold: Long,
    val gift: GiftKind,
    /** The price of one unit. */
    val value: Value? = null,
    @SerialName("per_user") val perUser: Long,
    @SerialName("hold_ttl_ms") val holdTtlMs: Long,
    @SerialName("max_holds_per_user") val maxHoldsPerUser: Long,
    @SerialName("opens_at") val opensAt: String? = null,
    @SerialName("closes_at") val closesAt: String? = null,
)

/** What the host asks overlays to do. */
@Serializable
public data class Control(val paused: Boolean = false, val muted: Boolean = false)

/** A place among the leaders. */
@Serializable
public data class Leader(val rank: Int, val user: User, val score: Long)

/** What was given in a period; [leaders] by `points`, `units` or a currency. */
@Serializable
public data class Totals(
    val since: String,
    val gifts: Long,
    val units: Long,
    val gifters: Long,
    val points: Long,
    val values: List<Money> = emptyList(),
    val leaders: Map<String, List<Leader>> = emptyMap(),
) {
    /** A sum in one currency, in minor units. */
    @Serializable
    public data class Money(val currency: String, val amount: Long)
}

/** A goal of a feed. */
@Serializable
public data class Goal(
    val goal: String,
    val title: String = "",
    val period: String = "",
    val by: String = "",
    val target: Long = 0,
    val value: Long = 0,
    @SerialName("reached_at") val reachedAt: String? = null,
    val deleted: Boolean = false,
)

/**
 * The list of a feed at a position, and all that goes with it. It never changes. Keep it whole when you keep a position:
 * `resumed` repeats none of it.
 */
@Serializable
public data class FeedList(
    val feed: String,
    val epoch: String,
    val seq: Long,
    val capacity: Int,
    val rows: List<Row> = emptyList(),
    val drops: List<Drop> = emptyList(),
    val control: Control = Control(),
    val totals: Map<String, Totals> = emptyMap(),
    val goals: List<Goal> = emptyList(),
) {
    /** `epoch:seq`. */
    val position: String get() = "$epoch:$seq"

    /** As a text that [fromJson] reads, for an app that is put away and comes back. */
    public fun toJson(): String = json.encodeToString(serializer(), this)

    public companion object {
        /** Reads what [toJson] wrote; null when it is no such text. */
        @JvmStatic
        public fun fromJson(text: String): FeedList? =
            runCatching { json.decodeFromString(serializer(), text) }.getOrNull()
    }
}

/** A change of the list, with its seq. */
public sealed class Op {
    public abstract val seq: Long

    /** A row in front. */
    public data class Add(override val seq: Long, val row: Row) : Op()

    /** A row replaced where it stands. */
    public data class Update(override val seq: Long, val row: Row) : Op()

    /** A row that left; [reason] is `retracted` or `expired`. */
    public data class Remove(override val seq: Long, val row: String, val reason: String) : Op()

    /** How a drop stands now. */
    public data class DropTold(override val seq: Long, val drop: Drop) : Op()

    /** What overlays are to do: `pause`, `resume`, `skip`, `mute`, `unmute` or `replay`, of [row] where it names one. */
    public data class ControlTold(override val seq: Long, val action: String, val row: String?) : Op()

    /** Periods whose totals or leaders changed; null: not counted any more. */
    public data class TotalsTold(override val seq: Long, val totals: Map<String, Totals?>) : Op()

    /** A goal as it stands, or that it was deleted. */
    public data class GoalTold(override val seq: Long, val goal: Goal) : Op()

    /** One that only counts: of a later version, or `none`. */
    public data class Other(override val seq: Long, val op: String) : Op()
}

/** How a list came to be another. */
public sealed class Change {
    /** Replaced: at first, after a reset, or because this client fell behind by [skipped] changes. */
    public data class Snapshot(val skipped: Long) : Change()

    /** Changed by these, in this order. */
    public data class Delta(val ops: List<Op>) : Change()
}
