-- list: the capped list that watchers see.
--
--   list  STRING, newest first, a line per row: "ROW" or "ROW COMBO_KEY"
--   rows  HASH, row -> its text (feed/row). None expires with an idle feed before list does

local call, find = redis.call, string.find
local text, added, count = STRINGS.list or '', {}, 0
if text ~= '' then
  local at = 0
  repeat
    count, at = count + 1, find(text, '\n', at + 1, true)
  until not at
end

-- stored_rows: how many rows the hash has. texts: rows by id, as far as they were read or made; false once removed. removed: ids.
local list = { count = count, stored_rows = call('HLEN', KEYS.rows), texts = {}, removed = {} }
local texts, removed, changed, entries = list.texts, list.removed, {}, nil

-- Forgets a row; its id. One that this call added is not stored, and removing it does no harm.
local function forget(entry)
  local id = string.match(entry, '^%S+')
  removed[#removed + 1], texts[id] = id, false
  return id
end

-- The lines of the list, newest first, with the rows that were added, and cut to the capacity.
local function lines()
  if entries and #added == 0 then return entries end
  local all, capacity = {}, feed.policy.capacity
  for at = #added, 1, -1 do
    if #all < capacity then all[#all + 1] = added[at] else texts[string.match(added[at], '^%S+')] = false end
  end
  local function add_old(entry)
    if #all < capacity then all[#all + 1] = entry else forget(entry) end
  end
  if entries then
    for at = 1, #entries do add_old(entries[at]) end
  else
    for entry in string.gmatch(text, '[^\n]+') do add_old(entry) end
  end
  entries, added = all, {}
  return all
end

-- Removes the row at this index; its id.
local function remove(index)
  return forget(table.remove(lines(), index))
end

-- The text of a row; nothing when the list has none of this id.
local function text_of(id)
  if #added > 0 then lines() end -- what was added may have taken its place
  if texts[id] == nil then texts[id] = call('HGET', KEYS.rows, id) end
  return texts[id]
end

-- Puts a row of this body on top; its id. `combo` is the key of its combo, "" for none. What does not fit any more leaves.
local function add(body, combo)
  local seq = feed.next_seq()
  local id = feed.epoch .. '-' .. seq
  local row = id .. '\n1\n' .. seq .. '\n' .. feed.time .. '\n' .. feed.time .. '\n' .. feed.row_expiry() .. '\n' .. body
  added[#added + 1], changed[#changed + 1], texts[id] = combo == '' and id or id .. ' ' .. combo, id, row
  feed.record('add', row)
  return id
end

-- Stores another text of a row.
local function replace(id, row)
  feed.next_seq()
  changed[#changed + 1], texts[id] = id, row
  feed.record('update', row)
end

-- Writes the rows; the text of the list and its length are for the caller to write.
local function commit()
  local is_same = not entries and #added == 0
  local all = is_same and {} or lines()
  if feed.is_lost then
    call('DEL', KEYS.list, KEYS.rows, KEYS.meta)
  elseif #removed > 0 then
    call('HDEL', KEYS.rows, unpack(removed))
  end
  local rows, n = {}, 0
  for at = 1, #changed do
    local id = changed[at]
    if texts[id] then rows[n + 1], rows[n + 2], n = id, texts[id], n + 2 end
  end
  if n > 0 then call('HSET', KEYS.rows, unpack(rows)) end
  if is_same then return text, count end
  return table.concat(all, '\n'), #all
end

-- The list is of no use: it begins anew.
local function clear()
  text, count = '', 0
end

list.lines, list.remove, list.text_of, list.add, list.replace, list.commit, list.clear = lines, remove, text_of, add, replace, commit, clear
return list
