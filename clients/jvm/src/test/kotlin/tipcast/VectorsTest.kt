package tipcast

import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.boolean
import kotlinx.serialization.json.contentOrNull
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.long
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.File

class VectorsTest {
    @Test
    fun `the fold does what the vectors say`() {
        val files = File("../../docs/protocol/vectors").listFiles { it -> it.extension == "json" }.orEmpty()
        assertTrue(files.size >= 10)
        var steps = 0
        for (file in files) {
            for (vector in Json.parseToJsonElement(file.readText()).jsonObject.getValue("vectors").jsonArray) {
                val name = "${file.name}, ${vector.jsonObject.text("name")}"
                val fold = Fold("show")
                vector.jsonObject.getValue("steps").jsonArray.forEachIndexed { n, step ->
                    check(fold, step.jsonObject, "$name, step ${n + 1}")
                    steps += 1
                }
            }
        }
        assertTrue(steps > 100, "$steps")
    }

    private fun check(fold: Fold, step: JsonObject, at: String) {
        if ("connect" in step) {
            assertEquals(step.getValue("connect").jsonPrimitive.contentOrNull, fold.position, at)
            fold.rewind()
            return
        }
        val did = when (val outcome = fold.take(step.getValue("frame").jsonObject)) {
            is Outcome.Changed -> "show"
            is Outcome.Nothing -> "nothing"
            is Outcome.Gap -> if (fold.position == null) "restart" else "reconnect"
            else -> error(outcome)
        }
        assertEquals(step.text("do"), did, at)
        assertEquals(step.getValue("position").jsonPrimitive.contentOrNull, fold.position, at)
        val list = fold.list
        val rows = list?.rows.orEmpty()
        assertEquals(texts(step, "rows"), rows.map { if (it.rev == 1L) it.row else "${it.row}@${it.rev}" }, at)
        if ("drops" in step) assertEquals(texts(step, "drops"), list?.drops.orEmpty().map { "${it.drop}=${it.free}" }, at)
        if ("goals" in step) assertEquals(texts(step, "goals"), list?.goals.orEmpty().map { "${it.goal}=${it.value}" }, at)
        if ("gifts" in step) {
            val told = listOf("all", "session", "day", "week", "month").mapNotNull { period ->
                list?.totals?.get(period)?.let { "$period=${it.gifts}" }
            }
            assertEquals(texts(step, "gifts"), told, at)
        }
        step["control"]?.jsonObject?.let { wanted ->
            val control = Control(wanted.getValue("paused").jsonPrimitive.boolean, wanted.getValue("muted").jsonPrimitive.boolean)
            assertEquals(control, list?.control, at)
        }
        step["counts"]?.jsonObject?.forEach { (row, count) ->
            assertEquals(count.jsonPrimitive.long, rows.single { it.row == row }.count, at)
        }
        step["amounts"]?.jsonObject?.forEach { (row, amount) ->
            assertEquals(amount.jsonPrimitive.long, rows.single { it.row == row }.value?.amount, at)
        }
    }

    private fun texts(step: JsonObject, name: String): List<String> =
        step[name]?.takeIf { it !is JsonNull }?.jsonArray.orEmpty().map { it.jsonPrimitive.content }
}
