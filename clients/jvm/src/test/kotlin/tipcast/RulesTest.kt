package tipcast

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

class RulesTest {
    /** Draws the ceiling itself. */
    private val most = { Rules { 1.0 } }

    private fun Rules.wait(ending: Ending, lived: Long? = null, goodbye: Long? = null): Next = after(ending, lived, goodbye, true)

    @Test
    fun `pauses double from half a second to twenty, and begin anew after a connection that lasted`() {
        val rules = most()
        val drawn = List(8) { rules.wait(Ending(), 9_999) }.map { (it as Next.Wait).ms }
        assertEquals(listOf<Long>(500, 1_000, 2_000, 4_000, 8_000, 16_000, 20_000, 20_000), drawn)
        assertEquals(Next.Wait(500), rules.wait(Ending(), 10_000))
    }

    @Test
    fun `what the gateway asks for is kept`() {
        assertEquals(Next.Wait(3_000, asked = true), most().wait(Ending(4200), 50, 3_000))
        assertEquals(Next.Wait(6_000, asked = true), most().wait(Ending(status = 429, retryAfterMs = 3_000)))
        assertEquals(Next.Wait(8_000, asked = true), most().wait(Ending(status = 503)))
        assertEquals(Next.Wait(8_000, asked = true), most().wait(Ending(4129)))
        assertEquals(Next.Wait(20_000, asked = true), most().wait(Ending(1009)))
        assertEquals(Next.Wait(500), most().wait(Ending(4200)))
        assertEquals(Next.Wait(500), most().wait(Ending(status = 502)))
    }

    @Test
    fun `it stops where the same would come of it`() {
        for (code in listOf(4000, 4002, 4099)) assertEquals(Next.Stop(code, ""), most().wait(Ending(code)))
        for (status in listOf(404, 421, 422, 426)) assertEquals(Next.Stop(status, ""), most().wait(Ending(status = status)))
        assertEquals(Next.Stop(4101, ""), most().after(Ending(4101), 20_000, null, canAsk = false))
        assertEquals(Next.Stop(4001, ""), most().after(Ending(status = 401), null, null, canAsk = false))
    }

    @Test
    fun `a refused token is asked for once more, an ended one each time`() {
        val rules = most()
        assertEquals(Next.Wait(0, newToken = true), rules.wait(Ending(4003)))
        assertEquals(Next.Stop(4003, ""), rules.wait(Ending(status = 403)))
        rules.begun()
        assertEquals(Next.Wait(0, newToken = true), rules.wait(Ending(status = 401)))
        assertEquals(Next.Wait(0, newToken = true), rules.wait(Ending(4101), 10_000))
        // One that did not last is paused for.
        assertEquals(Next.Wait(1_000, newToken = true), rules.wait(Ending(4101), 50))
    }
}
