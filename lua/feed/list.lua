-- list: the capped list that watchers see. How rows that are in it are found and changed: see rows.
--
--   list  LIST of rows (row), newest first, never longer than the policy's capacity. It is in the order in which rows were added, and
--         a row's id ends with the seq that added it

local call = redis.call
-- count: how many rows the store has. added: texts of those that this call added, the oldest first. place_of: the index of each in
-- `added`, by its id. all, is_rewritten, write_changed: see rows.
local list = {
  count = call('LLEN', KEYS.list), added = {}, place_of = {}, all = false, is_rewritten = false, write_changed = false,
  add = false, commit = false,
}
local added, place_of = list.added, list.place_of

-- Puts a row of this body on top; its id. What does not fit any more leaves.
function list.add(body)
  local seq, expires_at = feed.next_seq(), feed.row_expiry()
  local id = feed.epoch .. '-' .. seq
  local text = '{"id":"' .. id .. '","rev":1,"seq":' .. seq .. ',"at":' .. feed.time .. ',"updated_at":' .. feed.time
    .. (expires_at and ',"expires_at":' .. feed.int(expires_at) .. ',' or ',') .. body .. '}'
  added[#added + 1] = text
  place_of[id] = #added
  if list.all then table.insert(list.all, 1, { text = text, nth = #added }) end
  feed.record('add', ',"row":' .. text)
  return id
end

-- Writes the list; its length.
function list.commit()
  local capacity, length = feed.policy.capacity, list.count
  if list.is_rewritten or feed.is_lost then
    call('UNLINK', KEYS.list)
    length = 0
  end
  if list.write_changed then list.write_changed() end
  if #added > 0 then length = call('LPUSH', KEYS.list, unpack(added, math.max(1, #added - capacity + 1))) end
  if length > capacity then
    call('LTRIM', KEYS.list, '0', feed.int(capacity - 1))
    length = capacity
  end
  return length
end

return list
