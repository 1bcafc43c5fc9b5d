-- retracted: what a row was made of, and which rows were taken back whole; Rust puts this text behind feed_count's, in front of
-- scripts that take back.
--
--   retracted  ZSET, row -> until when it is known that it was taken back whole, and its gifts with it; the last ROWS_MAX
--
-- What a row was made of is read from the ledger, so that gifts cost nothing as long as nothing is taken back. A gift whose
-- entry was cut from the ledger, or is not among the newest LOOK, leaves with its row and without an entry.

local RETRACTED = KEYS.retracted
local CHUNK, LOOK, ROWS_MAX = 256, 20000, 100000
local whole = {}

-- Where in the ledger entries of this seq begin at the latest, and its length. Seqs of one ledger grow, except where a feed
-- lost its state and began anew: then this is too early, never too late.
local function place_of(number)
  local length = call('LLEN', LEDGER)
  return bisect(0, length, function(at) return select(2, entry_time(call('LINDEX', LEDGER, int(at)))) < number end), length
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

-- The entry of a gift that was taken back (r), or refunded in part (f), unless nothing was given with it; `unseen` where no
-- change came with that.
local function enter_back(status, row, gift, unseen)
  if gift.count == '0' and (gift.amount == '' or gift.amount == '0') then return end
  local value = gift.amount ~= '' and gift.amount .. ' ' .. gift.currency or ''
  enter(status, row, gift.id .. ' 0 - -', gift.count .. '\n' .. value .. '\n\n\n' .. gift.mark .. '\n' .. gift.user .. '\n' .. gift.kind
    .. '\n' .. (gift.reason or '') .. '\n \n', nil, unseen)
end

-- The gift of this id, whose entry has this number, if that is still there.
local function find_gift(id, number)
  local length = call('LLEN', LEDGER)
  local at = number and number - ledger_of(strings[7], length, READERS).base
  local entry = at and at >= 0 and at < length and call('LINDEX', LEDGER, int(at))
  if entry and match(entry, '^[amsn] [^\n]*\n(%S+) ') == id then return read_gift(entry) end
end

-- What is left of the gifts that made these rows, the oldest first; `rows` has their ids as keys, and the lists as values. In
-- `of` a list has them by their ids too: looking each up in it would take time by the square of their number.
-- `first` is the change with which the oldest of them began.
local function read_rows(rows, first)
  local from, length = place_of(first)
  from = math.max(from, length - LOOK)
  while from < length do
    for _, entry in ipairs(call('LRANGE', LEDGER, int(from), int(from + CHUNK - 1))) do
      local status, row = match(entry, '^(%a) %S+ (%S+) ')
      local made = rows[row]
      local gift = made and status ~= 's' and read_gift(entry)
      if gift and status ~= 'r' and status ~= 'f' then
        made[#made + 1], made.of[gift.id] = gift, gift
      elseif gift and made.of[gift.id] then
        local known = made.of[gift.id]
        if status == 'r' then known.gone = true else known.amount = int(known.amount - gift.amount) end
      end
    end
    from = from + CHUNK
  end
end

-- Takes rows back, whose indexes these are, the last first: of each the row and what was counted of it, and an entry for each gift.
local function take_rows(indexes)
  if #indexes == 0 then return end
  local rows, first = {}, seq
  for _, at in ipairs(indexes) do
    local id = match(entries[at], '^%S+')
    rows[id] = { of = {} }
    first = math.min(first, tonumber(match(row_text(id) or '', '^[^\n]*\n[^\n]*\n(%d+)\n') or '0'))
  end
  read_rows(rows, first)
  for _, at in ipairs(indexes) do
    local id = drop(at)
    record('retracted ' .. id, '')
    uncount_row(id)
    for _, gift in ipairs(rows[id]) do
      if not gift.gone then enter_back('r', id, gift) end
    end
    whole[#whole + 1] = id
  end
  call('ZCARD', RETRACTED)
end

-- Whether this row was taken back whole.
local function is_retracted(row)
  local known = tonumber(call('ZSCORE', RETRACTED, row) or nil)
  return known and steady < known or false
end

-- Writes which rows were taken back; after `commit`.
local function retracted_commit()
  if #whole == 0 then return end
  local known = math.max(KEEP_GIFTS, policy.idempotency_window_ms)
  for _, id in ipairs(whole) do call('ZADD', RETRACTED, til(known), id) end
  call('ZREMRANGEBYRANK', RETRACTED, '0', int(-1 - ROWS_MAX))
  call('PEXPIRE', RETRACTED, int(known))
end
