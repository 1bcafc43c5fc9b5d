-- unschedule: cancels a gift that waits.
--
-- KEYS list rows hist meta policy due later id
--     id: of the gift
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel gift
--     gift: its id
-- DATA writes, always
-- RETURNS the header, then "cancelled" and when it would have been shown, or "shown", or "unknown"
-- REFUSES nothing

local it, entry = receipt.read(strings[6]), call('HGET', LATER, ARGV.gift)
local member = entry and match(entry, '^%d+ %S+')
local score = member and tonumber(call('ZSCORE', DUE, member))
if not score then
  local was_taken = it and it['until'] and receipt.is_kept(it, steady) and it.status ~= 'cancelled'
  return { header(), was_taken and 'shown' or 'unknown' }
end
due_remove(member, ARGV.gift)
commit('=')
if it then
  local cancelled = receipt.cancelled(it, math.min(steady + policy.idempotency_window_ms, MAX_TIME), score)
  call('SET', KEYS.id, cancelled, 'PX', int(policy.idempotency_window_ms + 60000))
end
due_commit()
return { header(), 'cancelled', int(score) }
