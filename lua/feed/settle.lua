-- settle: what the policy and time have brought since the last change: where another capacity is in force, the list is cut to it;
-- rows that expired are removed, the oldest first.

local function apply()
  local entries = list.lines()
  feed.is_unsettled = false
  if feed.is_resized then
    feed.is_resized = false
    feed.next_seq()
    feed.record('reset', '') -- watchers get a snapshot
    feed.forget_history()
  end
  if feed.expires_at and feed.now >= feed.expires_at then
    feed.expires_at = false
    for index = #entries, 1, -1 do
      local text = list.text_of(string.match(entries[index], '^%S+'))
      local row = text and LATER.row.decode(text)
      local expires_at = row and tonumber(row.expires_at)
      if expires_at and expires_at > 0 and expires_at <= feed.now then
        local id = list.remove(index)
        feed.next_seq()
        feed.record('expired ' .. id, '')
      elseif expires_at and expires_at > 0 and (not feed.expires_at or expires_at < feed.expires_at) then
        feed.expires_at = expires_at
      end
    end
  end
end

return { apply = apply }
