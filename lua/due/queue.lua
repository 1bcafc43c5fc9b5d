-- queue: joining and leaving a feed's due queue; Rust puts this text behind feed_common's, in front of
-- scripts that do so.
--
--   due    ZSET, when it is due -> "ORDER KINDID": ORDER has 16 digits and grows with every entry that
--          comes, so that entries of the same time stand in order of arrival; KIND is one letter, see
--          domain::due
--   later  HASH, for gifts: id -> "MEMBER MADE\n" and the record of the gift, MADE when it joined; and "#" -> the last ORDER
--
-- A feed must be in the index of feeds (due/register) before its first entry is in due, or nobody looks.

local DUE, LATER, LAST = KEYS.due, KEYS.later, '#'
local due_new, due_out, later_new, later_out, due_count, due_last = {}, {}, {}, {}, false, false

-- How many entries wait, of all kinds. Also the check of both keys' types before anything is written.
local function due_waiting()
  if not due_count then
    due_count, due_last = call('ZCARD', DUE), tonumber(call('HGET', LATER, LAST) or '0')
  end
  return due_count
end

-- When the first entry is due, as it stands in the store; false when there is none.
local function due_first()
  return tonumber(call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2])
end

-- An entry comes; `text` is what a gift needs.
local function due_add(at, kind, id, text)
  due_waiting()
  due_last = due_last + 1
  local member = format('%016d ', due_last) .. kind .. id
  due_new[#due_new + 1] = int(at)
  due_new[#due_new + 1] = member
  if text then
    later_new[#later_new + 1] = id
    later_new[#later_new + 1] = member .. ' ' .. time .. '\n' .. text
  end
end

-- An entry goes. It must be there, and DUE have been read.
local function due_remove(member, gift_id)
  due_out[#due_out + 1] = member
  if gift_id then later_out[#later_out + 1] = gift_id end
end

-- Writes what came and what went; after `commit`.
local function due_commit()
  if #due_out > 0 then call('ZREM', DUE, unpack(due_out)) end
  if #later_out > 0 then call('HDEL', LATER, unpack(later_out)) end
  if #due_new > 0 then
    call('ZADD', DUE, unpack(due_new))
    call('HSET', LATER, LAST, int(due_last), unpack(later_new))
  elseif #due_out > 0 and call('EXISTS', DUE) == 0 then
    call('DEL', LATER)
  end
end
