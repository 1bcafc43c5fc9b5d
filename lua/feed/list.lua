-- list: the capped list that watchers see.
--
--   list  LIST of rows (row), newest first, never longer than the policy's capacity. It is in the order in which rows were added, and
--         a row's id ends with the seq that added it

local call, match = redis.call, string.match
-- Texts of the rows that this call added, the oldest first; by the id of each, the how manieth it is.
local added, place_of = {}, {}
-- Rows of the store that were read, and those that got another text, by their index there.
local stored, changed = {}, {}
-- The list as it will be, newest first, once somebody asked for all of it. Whether it is to be written anew: rows were removed.
local all, is_rewritten = nil, false
local list = { count = call('LLEN', KEYS.list) }

-- All rows that the list will have, newest first. Of each the text, and where in the store it is (`at`), nil if this call added it.
local function rows()
  if all then return all end
  all = {}
  for n = #added, 1, -1 do all[#all + 1] = { text = added[n] } end
  local texts = list.count > 0 and call('LRANGE', KEYS.list, '0', '-1') or {}
  for n = 1, math.min(#texts, feed.policy.capacity - #added) do
    all[#all + 1] = stored[n - 1] or { text = texts[n], at = n - 1 }
  end
  for n = #all, feed.policy.capacity + 1, -1 do all[n] = nil end
  return all
end

-- The row of this id among those that the store has at indexes below `length`. The newest is looked at first: most gifts join that.
local function search(id, length)
  local begin, wanted = '{"id":"' .. id .. '"', tonumber(match(id, '%d+$')) or 0
  local at, low, high = 0, 0, length - 1
  while low <= high do
    stored[at] = stored[at] or { text = call('LINDEX', KEYS.list, feed.int(at)) or '', at = at }
    local text = stored[at].text
    if string.sub(text, 1, #begin) == begin then return stored[at] end
    if (tonumber(match(text, '^{"id":"[^"]-(%d+)"')) or 0) > wanted then low = at + 1 else high = at - 1 end
    at = math.floor((low + high) / 2)
  end
end

-- The id of a row.
function list.id_of(row)
  return match(row.text, '^{"id":"([^"]+)"')
end

-- The row of this id: its text, and what `replace` and `remove` need. Nothing when the list has none, or will not have it any more.
function list.find(id)
  if all then
    for _, row in ipairs(all) do
      if list.id_of(row) == id then return row end
    end
    return nil
  end
  local nth, capacity = place_of[id], feed.policy.capacity
  if not nth then return search(id, math.min(list.count, capacity - #added)) end
  return nth > #added - capacity and { text = added[nth], nth = nth } or nil
end

-- Puts a row of this body on top; its id. What does not fit any more leaves.
function list.add(body)
  local seq = feed.next_seq()
  local id = feed.epoch .. '-' .. seq
  local expires_at = feed.row_expiry()
  local text = '{"id":"' .. id .. '","rev":1,"seq":' .. seq .. ',"at":' .. feed.time .. ',"updated_at":' .. feed.time
    .. (expires_at and ',"expires_at":' .. feed.int(expires_at) .. ',' or ',') .. body .. '}'
  if all then
    table.insert(all, 1, { text = text })
    all[feed.policy.capacity + 1] = nil
  else
    added[#added + 1] = text
    place_of[id] = #added
  end
  feed.record('add', ',"row":' .. text)
  return id
end

-- Another text of a row.
function list.replace(row, text)
  row.text = text
  if row.at then changed[row.at] = row elseif row.nth then added[row.nth] = text end
  feed.next_seq()
  feed.record('update', ',"row":' .. text)
end

-- Removes a row.
function list.remove(row)
  for n, it in ipairs(rows()) do
    if it.text == row.text then table.remove(all, n) break end
  end
  is_rewritten = true
end

-- The ids of the rows in the store that leave the list with this call.
function list.leaving()
  if not all and list.count + #added <= feed.policy.capacity then return {} end
  local ids, stays = {}, {}
  for _, row in ipairs(rows()) do stays[row.at or 'added'] = true end
  for at = 0, list.count - 1 do
    if not stays[at] then ids[#ids + 1] = list.id_of({ text = call('LINDEX', KEYS.list, feed.int(at)) }) end
  end
  return ids
end

-- The list is of no use: it begins anew.
function list.clear()
  list.count = 0
end

-- Writes the list; its length.
function list.commit()
  local capacity, length = feed.policy.capacity, list.count
  if all then
    added = {}
    for n = #all, 1, -1 do
      if is_rewritten or not all[n].at then added[#added + 1] = all[n].text end
    end
  end
  if is_rewritten or feed.is_lost then
    call('DEL', KEYS.list)
    length = 0
  else
    for at, row in pairs(changed) do call('LSET', KEYS.list, feed.int(at), row.text) end
  end
  if #added > 0 then length = call('LPUSH', KEYS.list, unpack(added, math.max(1, #added - capacity + 1))) end
  if length > capacity then
    call('LTRIM', KEYS.list, '0', feed.int(capacity - 1))
    length = capacity
  end
  return length
end

list.rows = rows
return list
