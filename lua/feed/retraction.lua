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

-- A gift or a sale as its entry has it: what was given, who gave what, and the drop's mark.
local function read_gift(entry)
  local grown, id, own, from = match(entry, '^%S+ %S+ %S+ %d+ ?(%S*)\n(%S+) (%d+)[^\n]*\n()')
  local value, mark, user, kind = match(entry, '^[^\n]*\n([^\n]*)\n[^\n]*\n[^\n]*\n([^\n]*)\n([^\n]*)\n([^\n]*)\n', from)
  if not value then return nil end
  local count, amount, currency = match(grown, '^(%d+):(%d*):(%a*)$')
  if not count then
    count, amount, currency = own, match(value, '^(%d*) ?(%a*)$')
  end
  return { id = id, count = count, amount = amount, currency = currency, mark = mark, user = user, kind = kind }
end

-- Appends the entry of a gift that was taken back (r), or refunded in part (f), unless nothing was given with it; `is_unseen` where no
-- change came with that.
local function append(letter, row_id, gift, is_unseen)
  if gift.count == '0' and (gift.amount == '' or gift.amount == '0') then return end
  local value = gift.amount ~= '' and gift.amount .. ' ' .. gift.currency or ''
  ledger.append(letter, row_id, gift.id .. ' 0 - -', gift.count .. '\n' .. value .. '\n\n\n' .. gift.mark .. '\n' .. gift.user .. '\n'
    .. gift.kind .. '\n' .. (gift.reason or '') .. '\n \n', nil, is_unseen)
end

-- The gift of this id, whose entry has this number, if that is still there.
local function find_gift(id, number)
  local length = call('LLEN', KEYS.ledger)
  local at = number and number - LATER.stored.ledger_of(STRINGS.reports, length, KEYS.readers).base
  local entry = at and at >= 0 and at < length and call('LINDEX', KEYS.ledger, int(at))
  if entry and match(entry, '^[amsn] [^\n]*\n(%S+) ') == id then return read_gift(entry) end
end

-- What is left of the gifts that made these rows, the oldest first; `rows` has their ids as keys, and the lists as values. In `of` a
-- list has them by their ids too: looking each up in it would take time by the square of their number. `first_seq` is the change
-- with which the oldest of them began.
local function read_rows(rows, first_seq)
  local from, length = place_of(first_seq)
  from = math.max(from, length - ENTRIES_MAX)
  while from < length do
    for _, entry in ipairs(call('LRANGE', KEYS.ledger, int(from), int(from + ENTRIES_AT_ONCE - 1))) do
      local letter, row_id = match(entry, '^(%a) %S+ (%S+) ')
      local made = rows[row_id]
      local gift = made and letter ~= 's' and read_gift(entry)
      if gift and letter ~= 'r' and letter ~= 'f' then
        made[#made + 1], made.of[gift.id] = gift, gift
      elseif gift and made.of[gift.id] then
        local known = made.of[gift.id]
        if letter == 'r' then known.is_gone = true else known.amount = int(known.amount - gift.amount) end
      end
    end
    from = from + ENTRIES_AT_ONCE
  end
end

-- Takes back the rows at these indexes, the last first: of each the row and what was counted of it, and an entry for each gift.
local function take_rows(indexes)
  if #indexes == 0 then return end
  local rows, first_seq = {}, feed.seq
  for _, at in ipairs(indexes) do
    local id = match(list.lines()[at], '^%S+')
    local row = LATER.row.find(id)
    rows[id] = { of = {} }
    first_seq = math.min(first_seq, row and tonumber(row.seq) or 0)
  end
  read_rows(rows, first_seq)
  for _, at in ipairs(indexes) do
    local id = list.remove(at)
    feed.next_seq()
    feed.record('retracted ' .. id, '')
    totals.take_row(id)
    for _, gift in ipairs(rows[id]) do
      if not gift.is_gone then append('r', id, gift) end
    end
    whole[#whole + 1] = id
  end
  call('ZCARD', KEYS.retracted) -- checks its type
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

return { append = append, find_gift = find_gift, take_rows = take_rows, is_retracted = is_retracted }
