-- locks: the dedup locks that the gifts of this call meet and take. See lock for what one is.

local GRACE = 60000
local policy, taken = feed.policy, {}
local begin

-- The row that holds the lock of the nth gift's user and kind; nothing when none does.
local function row_of(n)
  local text = policy.dedup ~= 'off' and (taken[KEYS.lock[n]] or STRINGS.lock[n])
  return text and lock.row_of(text, feed.steady, feed.list_epoch) or nil
end

-- The row of this id has the lock of the nth gift from now on.
local function take(n, id)
  if policy.dedup == 'off' or policy.dedup_window_ms == 0 then return end
  begin = begin or lock.before_row(math.min(feed.steady + policy.dedup_window_ms, clock.MAX_TIME), feed.list_epoch)
  taken[KEYS.lock[n]] = begin .. id .. lock.AFTER_ROW
end

feed.commits[#feed.commits + 1] = function()
  local px = feed.int(policy.dedup_window_ms + GRACE)
  for key, text in pairs(taken) do redis.call('SET', key, text, 'PX', px) end
end

return { row_of = row_of, take = take }
