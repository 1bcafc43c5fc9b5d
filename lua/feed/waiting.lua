-- waiting: gifts that are to be shown later.

local int, policy = feed.int, feed.policy

-- When the nth gift is to be shown; nothing when that is now.
local function due_at(n)
  local show, at = ARGV.show[n], nil
  if show == '-' then return nil end
  if show == '' then
    at = feed.now + policy.delay_ms
  elseif string.sub(show, 1, 1) == '+' then
    at = feed.now + tonumber(string.sub(show, 2))
  else
    at = tonumber(show)
  end
  return at > feed.now and math.min(at, clock.MAX_TIME) or nil
end

-- Whether the nth gift cannot wait until then yet: the feed must be in the index first, or the record come along. Then the whole
-- call does nothing, see feed.unready_at.
local function is_unready(n, at)
  local registered_at = tonumber(ARGV.looked_at)
  if ARGV.record[n] ~= '' and registered_at and at >= registered_at then return false end
  feed.unready_at = math.min(feed.unready_at or at, at)
  return true
end

-- The nth gift waits until then: what is answered.
local function add(n, at)
  if LATER.schedule.count_gifts() >= tonumber(ARGV.may_wait) then
    return 'f' .. int(math.max((LATER.schedule.first() or at) - feed.now, 0))
  end
  if is_unready(n, at) then return '' end
  LATER.schedule.add(at, 'g', cjson.decode(ARGV.record[n]).id, ARGV.record[n])
  return 'n' .. receipts.keep_waiting(n, 'scheduled', ',"due_at":' .. int(at))
end

return { due_at = due_at, is_unready = is_unready, add = add }
