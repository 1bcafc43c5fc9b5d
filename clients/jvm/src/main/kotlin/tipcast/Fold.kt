package tipcast

import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.decodeFromJsonElement
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.long

/** What a frame did to the list. */
internal sealed class Outcome {
    data class Changed(val change: Change) : Outcome()

    object Nothing : Outcome()

    /** This connection is not to be trusted any more: connect again from the position, or without one when there is none. */
    object Gap : Outcome()
}

/**
 * The list of one feed and where it stands, changed by frames only: no I/O, no clock. Throws on what is no frame of the
 * protocol; the list is then as it was.
 */
internal open class Fold(private val feed: String, start: FeedList? = null) {
    /** What is shown, also while its position cannot be trusted. */
    var list: FeedList? = start
        private set

    /** False: the list is not the server's, only a snapshot helps. */
    private var trusted = start != null

    /** False until the first snapshot or resumed of a connection. */
    private var begun = false

    /** What to offer when connecting. */
    val position: String? get() = list?.takeIf { trusted }?.position

    /** A new connection: it has to begin with a snapshot or a resumed. */
    fun rewind() {
        begun = false
    }

    fun take(frame: JsonObject): Outcome = when (frame.text("type")) {
        "snapshot" -> snapshot(frame)
        "resumed" -> resumed(frame)
        "delta" -> if (begun) delta(frame) else Outcome.Gap
        "keepalive" -> if (begun && frame.long("seq") == list?.seq) Outcome.Nothing else Outcome.Gap
        else -> Outcome.Nothing
    }

    private fun snapshot(frame: JsonObject): Outcome {
        val capacity = frame.getValue("capacity").jsonPrimitive.int
        list = FeedList(
            feed = feed,
            epoch = frame.text("epoch"),
            seq = frame.long("seq"),
            capacity = capacity,
            rows = frame.getValue("rows").jsonArray.map { json.decodeFromJsonElement<Row>(it) }.take(capacity),
            drops = frame["drops"]?.let { json.decodeFromJsonElement<List<Drop>>(it) }.orEmpty(),
            control = frame["control"]?.let { json.decodeFromJsonElement<Control>(it) } ?: Control(),
            totals = frame["totals"]?.let { json.decodeFromJsonElement<Map<String, Totals>>(it) }.orEmpty(),
            goals = frame["goals"]?.let { json.decodeFromJsonElement<List<Goal>>(it) }.orEmpty(),
        )
        begun = true
        trusted = true
        return Outcome.Changed(Change.Snapshot(frame["skipped"]?.jsonPrimitive?.long ?: 0))
    }

    private fun resumed(frame: JsonObject): Outcome {
        begun = position == "${frame.text("epoch")}:${frame.long("seq")}"
        return if (begun) Outcome.Nothing else startOver()
    }

    private fun startOver(): Outcome {
        trusted = false
        return Outcome.Gap
    }

    /** Whether these follow a list at [at], one after the other up to [last]. */
    protected open fun follow(at: Long, ops: List<Op>, last: Long): Boolean =
        ops.withIndex().all { (n, op) -> op.seq == at + 1 + n } && last == at + ops.size

    /** All of it or nothing: a delta with a hole anywhere leaves the list as it was. */
    private fun delta(frame: JsonObject): Outcome {
        val before = list ?: return Outcome.Gap
        val ops = frame.getValue("ops").jsonArray.map { op(it.jsonObject) }
        val last = frame.long("seq")
        if (!follow(before.seq, ops, last)) return Outcome.Gap
        if (ops.isEmpty()) return Outcome.Nothing
        val rows = before.rows.toMutableList()
        var after = before
        for (op in ops) {
            when (op) {
                is Op.Add -> {
                    if (rows.any { it.row == op.row.row }) return startOver()
                    rows.add(0, op.row)
                    while (rows.size > before.capacity) rows.removeAt(rows.lastIndex)
                }
                is Op.Update -> {
                    val at = rows.indexOfFirst { it.row == op.row.row }
                    if (at < 0) return startOver()
                    rows[at] = op.row
                }
                is Op.Remove -> if (!rows.removeAll { it.row == op.row }) return startOver()
                is Op.DropTold -> after = after.copy(
                    drops = (after.drops.filter { it.drop != op.drop.drop } + op.drop).sortedBy { it.drop },
                )
                is Op.ControlTold -> after = after.copy(control = held(after.control, op.action))
                is Op.TotalsTold -> {
                    val kept = after.totals + op.totals
                    after = after.copy(totals = buildMap { kept.forEach { (period, it) -> if (it != null) put(period, it) } })
                }
                is Op.GoalTold -> {
                    val others = after.goals.filter { it.goal != op.goal.goal }
                    after = after.copy(goals = if (op.goal.deleted) others else (others + op.goal).sortedBy { it.goal })
                }
                is Op.Other -> {}
            }
        }
        list = after.copy(seq = last, rows = rows)
        return Outcome.Changed(Change.Delta(ops))
    }

    /** What holds after an action; skip and replay hold nothing. */
    private fun held(control: Control, action: String): Control = when (action) {
        "pause" -> control.copy(paused = true)
        "resume" -> control.copy(paused = false)
        "mute" -> control.copy(muted = true)
        "unmute" -> control.copy(muted = false)
        else -> control
    }

    private fun op(op: JsonObject): Op {
        val seq = op.long("seq")
        return when (val name = op.text("op")) {
            "add" -> Op.Add(seq, json.decodeFromJsonElement(op.getValue("row")))
            "update" -> Op.Update(seq, json.decodeFromJsonElement(op.getValue("row")))
            "remove" -> Op.Remove(seq, op.text("row"), op["reason"]?.jsonPrimitive?.content ?: "retracted")
            "drop" -> Op.DropTold(seq, json.decodeFromJsonElement(op.getValue("drop")))
            "control" -> Op.ControlTold(seq, op.text("action"), op["row"]?.jsonPrimitive?.content)
            "totals" -> Op.TotalsTold(seq, op.getValue("totals").jsonObject.mapValues { (_, it) ->
                if (it is JsonNull) null else json.decodeFromJsonElement<Totals>(it)
            })
            "goal" -> Op.GoalTold(seq, json.decodeFromJsonElement(op.getValue("goal")))
            else -> Op.Other(seq, name)
        }
    }
}

internal fun JsonObject.text(name: String): String = getValue(name).jsonPrimitive.content

internal fun JsonObject.long(name: String): Long = getValue(name).jsonPrimitive.long
