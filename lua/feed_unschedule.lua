-- feed_unschedule: cancels a gift that waits.
--
-- KEYS 8:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 due
--   7 later
--   8 id: of the gift
-- ARGV 10:
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 gift: its id
-- DATA writes, always
-- RETURNS the header, then "cancelled" and when it would have been shown, or "shown", or "unknown"
-- REFUSES nothing

local known, entry = strings[6], call('HGET', LATER, ARGV[10])
local member = entry and match(entry, '^%d+ %S+')
local score = member and tonumber(call('ZSCORE', DUE, member))
if not score then
  local over, status = match(known or '', '^(%d+) %x+ ([amswcvn])%u? %S+ %d+ %S+ %S+')
  if over and steady < tonumber(over) and match(status, '[amsn]') then return { header(), 'shown' } end
  return { header(), 'unknown' }
end
due_remove(member, ARGV[10])
commit('=')
local fingerprint, decided = match(known or '', '^%d+ (%x+) %l(%u?)')
if fingerprint then
  local answer = til(policy.idempotency_window) .. ' ' .. fingerprint .. ' c' .. decided .. ' 0 0 ' .. int(score) .. ' -'
  call('SET', KEYS[8], answer, 'PX', int(policy.idempotency_window + 60000))
end
due_commit()
return { header(), 'cancelled', int(score) }
