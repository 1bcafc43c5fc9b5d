-- schedule: a feed's due queue: what is to be done at its time.
--
--   due    ZSET, when it is due -> "ORDER KINDID": ORDER has 16 digits and grows with every entry that comes, so that entries of
--          the same time are in order of arrival; KIND is one letter, see domain::due
--   later  HASH, of gifts: id -> "MEMBER MADE\n" and the record of the gift, MADE when it joined; and "#" -> the last ORDER
--
-- A feed must be in the index of feeds (due/register) before its first entry is in due, or no node looks at it.

local call, int = redis.call, feed.int
local LAST_ORDER = '#'
local added, removed, records, forgotten = {}, {}, {}, {}
-- Reading both also checks the types of their keys before anything is written.
local count, last = call('ZCARD', KEYS.due), tonumber(call('HGET', KEYS.later, LAST_ORDER) or '0')
local gifts

-- When the first entry is due, as it is stored; nil if the queue is empty.
local function first()
  return tonumber(call('ZRANGE', KEYS.due, '0', '0', 'WITHSCORES')[2])
end

-- How many gifts wait for their time.
local function count_gifts()
  gifts = gifts or (count > 0 and call('HLEN', KEYS.later) - 1 or 0)
  return gifts + #records / 2
end

-- Adds an entry, with the record of a gift if it is for one that waits for its time; its member.
local function add(at, kind, id, record)
  last = last + 1
  local member = string.format('%016d ', last) .. kind .. id
  added[#added + 1] = int(at)
  added[#added + 1] = member
  if record then
    records[#records + 1] = id
    records[#records + 1] = member .. ' ' .. feed.time .. '\n' .. record
  end
  return member
end

-- Removes an entry, and the record of the gift of this id if it is for one that waits for its time.
local function remove(member, gift_id)
  removed[#removed + 1], forgotten[#forgotten + 1] = member, gift_id
end

-- Removes the entry of a gift that waits for its time. Returns when it would have been due, nil if it does not wait.
local function cancel(gift_id)
  local waiting = call('HGET', KEYS.later, gift_id)
  local member = string.match(waiting or '', '^%d+ %S+')
  local due_at = member and tonumber(call('ZSCORE', KEYS.due, member) or nil)
  if due_at then remove(member, gift_id) end
  return due_at
end

feed.commits[#feed.commits + 1] = function()
  if #removed > 0 then call('ZREM', KEYS.due, unpack(removed)) end
  if #forgotten > 0 then call('HDEL', KEYS.later, unpack(forgotten)) end
  if #added > 0 then
    call('ZADD', KEYS.due, unpack(added))
    call('HSET', KEYS.later, LAST_ORDER, int(last), unpack(records))
  elseif #removed > 0 and call('EXISTS', KEYS.due) == 0 then
    call('UNLINK', KEYS.later)
  end
end

return { first = first, count_gifts = count_gifts, add = add, remove = remove, cancel = cancel }
