-- unschedule: cancels a gift that waits.
--
-- KEYS list rows hist meta policy due later id
--     id: of the gift
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel gift
--     gift: its id
-- USES clock policies list feed receipt schedule
-- LATER doubt
-- DATA writes, always
-- RETURNS where the feed stands, then "cancelled" and when it would have been shown, or "shown", or "unknown"
-- REFUSES nothing

if feed.refusal then return feed.refusal end
local it, waiting = receipt.read(STRINGS.id), redis.call('HGET', KEYS.later, ARGV.gift)
local member = string.match(waiting or '', '^%d+ %S+')
local due_at = member and tonumber(redis.call('ZSCORE', KEYS.due, member) or nil)
if not due_at then
  local was_taken = it and it['until'] and receipt.is_kept(it, feed.steady) and it.status ~= 'cancelled'
  return { feed.position(), was_taken and 'shown' or 'unknown' }
end
schedule.remove(member, ARGV.gift)
feed.commit()
if it then
  local window = feed.policy.idempotency_window_ms
  local ends_at = math.min(feed.steady + window, clock.MAX_TIME)
  redis.call('SET', KEYS.id, receipt.cancelled(it, ends_at, due_at), 'PX', feed.int(window + 60000))
end
return { feed.position(), 'cancelled', feed.int(due_at) }
