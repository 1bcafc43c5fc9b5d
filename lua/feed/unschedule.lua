-- unschedule: cancels a gift that waits.
--
-- KEYS list hist meta policy due later id
--     id: of the gift
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel gift
--     gift: its id
-- USES clock policies list feed receipt schedule
-- LATER doubt
-- DATA writes, always
-- RETURNS where the feed stands, then "cancelled" and when it would have been shown, or "shown", or "unknown"
-- REFUSES nothing

if feed.refusal then return feed.refusal end
local it, due_at = receipt.read(STRINGS.id), schedule.cancel(ARGV.gift)
if not due_at then
  local was_taken = it and it['until'] and receipt.is_kept(it, feed.steady) and it.status ~= 'cancelled'
  return { feed.position(), was_taken and 'shown' or 'unknown' }
end
if it then receipt.cancel(it, due_at, KEYS.id) end
feed.commit()
return { feed.position(), 'cancelled', feed.int(due_at) }
