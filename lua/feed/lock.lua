-- lock: the dedup lock of a user and a kind of gift. For the policy's dedup_window it names the row that the same gift joins
-- (dedup "combine"), or by which it is suppressed ("drop").
--
--   lock  STRING {"until":MS,"list":EPOCH,"row":ID}. EPOCH is the one in which the list began: a lock of another list does not
--         count. The window runs by the steady time. PX only removes what has run out, a minute later.

-- The row that holds the lock at `now`, in the list of this epoch; nothing when none does.
local function row_of(text, now, list)
  local lock = cjson.decode(text)
  if now < lock['until'] and lock.list == list then return lock.row end
end

-- A lock until then; the row's id comes behind it.
local function before_row(ends_at, list)
  return '{"until":' .. string.format('%d', ends_at) .. ',"list":"' .. list .. '","row":"'
end

return { row_of = row_of, before_row = before_row, AFTER_ROW = '"}' }
