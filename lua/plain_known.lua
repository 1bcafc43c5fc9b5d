-- plain_known: whether a feed is what the caller has seen of it; Rust puts this text in front of plain and of ready_look. Their
-- KEYS 2 is hist.

-- Has the caller seen what is not this feed's past? Most of the time it has seen all of it. `known`: "EPOCH SEQ TAG ", or "";
-- `meta` and what it says.
local function strayed(known, meta, epoch, seq, covered)
  if known == string.sub(meta, 1, #known) then return false end
  local known_epoch, known_seq, known_tag = string.match(known, '^(%S+) (%d+) (%d+) $')
  known_seq = known_seq + 0
  if known_epoch ~= epoch then return known_epoch > epoch end
  if known_seq >= seq then return true end
  if known_seq < covered then return false end -- too old to tell
  local change = redis.call('LINDEX', KEYS[2], known_seq - seq) or ''
  return string.match(change, '^%d+ (%d+) ') ~= known_tag
end
