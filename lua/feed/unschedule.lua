-- unschedule: cancels a gift that waits.
--
-- KEYS list rows hist meta policy due later id
--     id: of the gift
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel gift
--     gift: its id
-- DATA writes, always
-- RETURNS the header, then "cancelled" and when it would have been shown, or "shown", or "unknown"
-- REFUSES nothing

local known, entry = strings[6], call('HGET', LATER, ARGV.gift)
local member = entry and match(entry, '^%d+ %S+')
local score = member and tonumber(call('ZSCORE', DUE, member))
if not score then
  local over, status = match(known or '', '^(%d+) %x+ ([amswcvn])%u? %S+ %d+ %S+ %S+')
  if over and steady < tonumber(over) and match(status, '[amsn]') then return { header(), 'shown' } end
  return { header(), 'unknown' }
end
due_remove(member, ARGV.gift)
commit('=')
local fingerprint, decided = match(known or '', '^%d+ (%x+) %l(%u?)')
if fingerprint then
  local answer = til(policy.idempotency_window) .. ' ' .. fingerprint .. ' c' .. decided .. ' 0 0 ' .. int(score) .. ' -'
  call('SET', KEYS.id, answer, 'PX', int(policy.idempotency_window + 60000))
end
due_commit()
return { header(), 'cancelled', int(score) }
