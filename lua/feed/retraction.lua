-- retraction: what a row was made of, and which rows were taken back whole.
--
--   retracted  ZSET, row -> until when it is known that it was taken back whole, and its gifts with it; the last ROWS_MAX
--
-- What a row was made of is read from the ledger, so that gifts cost nothing as long as nothing is taken back. A gift whose entry was
-- cut from the ledger, or is not among the newest ENTRIES_MAX, leaves with its row and without an entry.

local call, match, int = redis.call, string.match, feed.int
local ENTRIES_AT_ONCE, ENTRIES_MAX, ROWS_MAX = 256, 20000, 100000
-- For how long it is known that a row was taken back: the domain's KEEP_MS.
local KEPT_MS = 3024000000
local whole = {}

-- Where in the ledger entries of this seq begin at the latest, and its length. Seqs of one ledger grow, except where a feed lost its
-- state and began anew: then this is too early, never too late.
local function place_of(seq)
  local length = call('LLEN', KEYS.ledger)
  local function is_before(at)
    return select(2, LATER.stored.entry_time(call('LINDEX', KEYS.ledger, int(at)))) < seq
  end
  return LATER.stored.bisect(0, length, is_before), length
end

-- A gift or a sale as its entry has it: its id, what was given, the drop, and who gave what as JSON members. Of an entry that took
-- something away it says what; then nothing is known of who.
local function read_gift(entry)
  local at = string.find(entry, ',"gift":{"id":"', 1, true)
  if not at then return nil end
  local head = cjson.decode(string.sub(entry, 1, at - 1) .. '}')
  local from = string.find(entry, ',"user":', at, true)
  local to = from and string.find(entry, ',"count":', from, true)
  return { id = match(entry, '^[^"]+', at + 15), given = head.given, drop = head.drop, who = to and string.sub(entry, from, to - 1) }
end

-- Appends the entry of a gift that was taken back, or refunded in part, unless nothing was given with it; `is_unseen` where no change
-- came with that.
local function append(kind, row_id, gift, is_unseen)
  local given = gift.given
  if given.units == 0 and (given.amount or 0) == 0 then return end
  ledger.append(kind, row_id, '"given":' .. LATER.row.sum_text(given.units, given.amount, given.currency)
    .. (gift.reason and ',"reason":' .. gift.reason or '') .. (gift.drop and ',"drop":"' .. gift.drop .. '"' or '')
    .. ',"gift":{"id":"' .. gift.id .. '"' .. (gift.who or '') .. '}', is_unseen)
end

-- The gift of this id, whose entry has this number, if that is still there.
local function find_gift(id, number)
  local length = call('LLEN', KEYS.ledger)
  local at = number and number - LATER.stored.ledger_of(STRINGS.reports, length, KEYS.readers).base
  local entry = at and at >= 0 and at < length and call('LINDEX', KEYS.ledger, int(at))
  local gift = entry and read_gift(entry)
  return gift and gift.id == id and gift or nil
end

-- What is left of the gifts that made these rows, the oldest first; `rows` has their ids as keys, and the lists as values. In `of` a
-- list has them by their ids too: looking each up in it would take time by the square of their number. `first_seq` is the change
-- with which the oldest of them began.
local function read_rows(rows, first_seq)
  local from, length = place_of(first_seq)
  from = math.max(from, length - ENTRIES_MAX)
  while from < length do
    for _, entry in ipairs(call('LRANGE', KEYS.ledger, int(from), int(from + ENTRIES_AT_ONCE - 1))) do
      local kind, row_id = match(entry, '^{"at":%d+,"seq":%d+,"type":"(%l+)","row":"([^"]+)"')
      local made = rows[row_id or '']
      local gift = made and kind ~= 'suppressed' and read_gift(entry)
      local known = gift and made.of[gift.id]
      if gift and kind ~= 'retracted' and kind ~= 'refunded' then
        made[#made + 1], made.of[gift.id] = gift, gift
      elseif known and kind == 'retracted' then
        known.is_gone = true
      elseif known then
        known.given.amount = known.given.amount - gift.given.amount
      end
    end
    from = from + ENTRIES_AT_ONCE
  end
end

-- Takes back these rows of the list: of each the row and what was counted of it, and an entry for each gift.
local function take_rows(listed)
  if #listed == 0 then return end
  local rows, first_seq = {}, feed.seq
  for _, one in ipairs(listed) do
    local row = LATER.row.decode(one)
    rows[LATER.rows.id_of(one)] = { of = {} }
    first_seq = math.min(first_seq, row and row.seq or 0)
  end
  read_rows(rows, first_seq)
  for _, one in ipairs(listed) do
    local id = LATER.rows.id_of(one)
    LATER.rows.remove(one)
    feed.next_seq()
    feed.record('retracted', ',"id":"' .. id .. '"')
    if STRINGS.totals then LATER.counting.take_row(id) end
    for _, gift in ipairs(rows[id]) do
      if not gift.is_gone then append('retracted', id, gift) end
    end
    whole[#whole + 1] = id
  end
  call('ZCARD', KEYS.retracted) -- checks its type
end

-- The refusal that ends the call, if there is one. Nothing is written yet.
local function refusal()
  return STRINGS.totals and LATER.counting.refusal() or ledger.refusal()
end

-- Whether this row was taken back whole.
local function is_retracted(row_id)
  local known_until = tonumber(call('ZSCORE', KEYS.retracted, row_id) or nil)
  return known_until and feed.steady < known_until or false
end

feed.commits[#feed.commits + 1] = function()
  if #whole == 0 then return end
  local kept = math.max(KEPT_MS, feed.policy.idempotency_window_ms)
  local known_until = int(math.min(feed.steady + kept, clock.MAX_TIME))
  for _, id in ipairs(whole) do call('ZADD', KEYS.retracted, known_until, id) end
  call('ZREMRANGEBYRANK', KEYS.retracted, '0', int(-1 - ROWS_MAX))
  call('PEXPIRE', KEYS.retracted, int(kept))
end

return { append = append, find_gift = find_gift, take_rows = take_rows, is_retracted = is_retracted, refusal = refusal }
