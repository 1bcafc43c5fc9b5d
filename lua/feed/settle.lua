-- settle: what the policy and time have changed since the last change of the feed.

-- Another capacity is in force now, to which the list is cut. Watchers get a snapshot.
local function resize()
  if not feed.is_resized then return end
  feed.is_resized = false
  feed.next_seq()
  feed.record('reset', '')
  feed.forget_history()
end

-- The same, and removes the rows that expired, the oldest first.
local function apply()
  resize()
  feed.is_unsettled = false
  if not feed.expires_at or feed.now < feed.expires_at then return end
  feed.expires_at = false
  local rows = LATER.rows.all()
  for n = #rows, 1, -1 do
    local row = LATER.row.decode(rows[n])
    local expires_at = row and row.expires_at or 0
    if expires_at > 0 and expires_at <= feed.now then
      LATER.rows.remove(rows[n])
      feed.next_seq()
      feed.record('expired', ',"id":"' .. row.id .. '"')
    elseif expires_at > 0 and (not feed.expires_at or expires_at < feed.expires_at) then
      feed.expires_at = expires_at
    end
  end
end

return { resize = resize, apply = apply }
