-- rows: finds and changes the rows that are in the list, also those that this call added to it.
--
-- A row is { text, at, nth }: what it says (row), and its index in the store, the newest at 0, or else in `list.added`.

local call, match = redis.call, string.match
local added, place_of = list.added, list.place_of
-- By their index in the store: rows that were read, and those that got another text.
local stored, changed = {}, {}

-- All rows that the list will have, newest first.
local function all()
  local capacity = feed.policy.capacity
  if not list.all then
    list.all = {}
    for nth = #added, 1, -1 do list.all[#list.all + 1] = { text = added[nth], nth = nth } end
    local texts = list.count > 0 and call('LRANGE', KEYS.list, '0', '-1') or {}
    for n, text in ipairs(texts) do list.all[#list.all + 1] = stored[n - 1] or { text = text, at = n - 1 } end
  end
  for n = #list.all, capacity + 1, -1 do list.all[n] = nil end
  return list.all
end

local function id_of(row)
  return match(row.text, '^{"id":"([^"]+)"')
end

-- The row of this id among those that the store has at indexes below `length`. The newest is looked at first: most gifts join that.
local function search(id, length)
  local wanted = tonumber(match(id, '%d+$')) or 0
  local at, low, high = 0, 0, length - 1
  while low <= high do
    stored[at] = stored[at] or { text = call('LINDEX', KEYS.list, feed.int(at)) or '', at = at }
    if id_of(stored[at]) == id then return stored[at] end
    if (tonumber(match(stored[at].text, '^{"id":"[^"]-(%d+)"')) or 0) > wanted then low = at + 1 else high = at - 1 end
    at = math.floor((low + high) / 2)
  end
end

-- The row of this id; nothing when the list has none, or will not have it any more.
local function find(id)
  if list.all then
    for _, row in ipairs(all()) do
      if id_of(row) == id then return row end
    end
    return nil
  end
  local nth, capacity = place_of[id], feed.policy.capacity
  if not nth then return search(id, math.min(list.count, capacity - #added)) end
  return nth > #added - capacity and { text = added[nth], nth = nth } or nil
end

-- Another text of a row.
local function replace(row, text)
  row.text = text
  if row.at then changed[row.at] = row else added[row.nth] = text end
  feed.next_seq()
  feed.record('update', ',"row":' .. text)
end

-- Removes a row. The whole list is written anew then.
local function remove(row)
  for n, it in ipairs(all()) do
    if it.text == row.text then table.remove(list.all, n) break end
  end
  list.is_rewritten = true
end

-- The ids of the rows in the store that leave the list with this call.
local function leaving()
  local ids, stays, more = {}, {}, list.count + #added - feed.policy.capacity
  if not list.all then
    for _, text in ipairs(more > 0 and call('LRANGE', KEYS.list, feed.int(-math.min(more, list.count)), '-1') or {}) do
      ids[#ids + 1] = id_of({ text = text })
    end
    return ids
  end
  for _, row in ipairs(all()) do stays[row.at or 'added'] = true end
  for at = 0, list.count - 1 do
    if not stays[at] then ids[#ids + 1] = id_of({ text = call('LINDEX', KEYS.list, feed.int(at)) }) end
  end
  return ids
end

-- Writes the rows that got another text. Of a list that is written anew all rows count as added.
function list.write_changed()
  if list.is_rewritten then
    local rows = all()
    for nth = 1, math.max(#added, #rows) do added[nth] = rows[#rows + 1 - nth] and rows[#rows + 1 - nth].text end
  else
    for at, row in pairs(changed) do call('LSET', KEYS.list, feed.int(at), row.text) end
  end
end

return { all = all, id_of = id_of, find = find, replace = replace, remove = remove, leaving = leaving }
