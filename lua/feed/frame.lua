-- frame: a gift that is a frame of a combo. It says how large the combo is by now; see combo for what is remembered of one.

local sum_text = LATER.row.sum_text
local combos = {}

feed.commits[#feed.commits + 1] = function()
  local px = feed.int(feed.policy.idempotency_window_ms + 60000)
  for key, text in pairs(combos) do redis.call('SET', key, text, 'PX', px) end
end

-- Remembers how large the nth gift says that its combo is; what the combo grew by.
local function grow(n)
  local said = cjson.decode(ARGV.given[n])
  local units, gained, text = LATER.combo.grow(combos[KEYS.lock[n]] or STRINGS.lock[n], feed.steady, receipts.ends_at, said.units,
    said.amount and feed.int(said.amount) or '', said.currency)
  -- A test is no entry: nothing of its combo is remembered.
  if ARGV.entry[n] ~= '' then combos[KEYS.lock[n]] = text end
  return sum_text(units, gained ~= '' and gained, said.currency)
end

-- The id of the newest row of the nth gift's combo.
local function row_of(n)
  local member = ',"combo_key":' .. ARGV.combo[n] .. ',"combo":'
  for _, listed in ipairs(LATER.rows.all()) do
    if string.find(listed.text, member, 1, true) then return LATER.rows.id_of(listed) end
  end
end

-- The nth gift joins the row of its combo, or begins one. What gift keeps of that.
local function take(n, decision)
  local id, count, added = row_of(n), nil, nil
  if id then count, added = LATER.merge.join_frame(id, n) end
  if count and added ~= 'ended' then return 'merged', decision, id, count, added, grow(n) end
  local said = cjson.decode(ARGV.given[n])
  if count then return 'merged', decision, id, count, sum_text(0), sum_text(0, said.amount and 0, said.currency) end

  -- A combo's count is cumulative; a first frame that says 0 still is one gift on screen.
  local body = ARGV.body[n]
  if said.units == 0 then body = string.gsub(body, '^"count":0', '"count":1') end
  id = list.add(body)
  return 'accepted', decision, id, nil, sum_text(math.max(said.units, 1), said.amount, said.currency), grow(n)
end

return { row_of = row_of, take = take, grow = grow }
