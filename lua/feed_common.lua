-- feed_common: how every feed_*.lua begins; Rust puts this text in front of theirs.
--
-- A failed script is not rolled back. So the order is: read everything, decide everything, and only
-- then `commit`, in which nothing can fail half way: every read has met every key's type.
--
-- What a feed is made of (all keys in one slot):
--   list    LIST, newest first: "ROWID" or "ROWID COMBOKEY"
--   rows    HASH, row id -> row, as engine::record spells it: see fields_of below
--   hist    LIST, oldest first: the last changes, one entry per seq; at least `seq - covered` of them
--   meta    STRING: epoch seq tag covered rows expiry|- born idle_ttl capacity
--           covered: positions from here on can be brought here by hist alone
--           rows: the length of list and of rows; another length means that something was evicted
--           expiry: no row's time is over before this
--           capacity: the list is cut to this; another one in force is a reset
--           born: the epoch in which the list began; locks of another list do not count
--   policy  STRING: capacity dedup dedup_window row_ttl delay flush idempotency_window history, "-" where
--           the server's default holds
-- A change is "SEQ PREV TAG KIND", newline, and after add and update the row, after drop the drop (feed_drops);
-- kinds: add, update, "expired ROWID", "retracted ROWID", drop, reset. Numbers are decimal text and exact: nothing here passes
-- through cjson, and sums stop at 2^53-1.
--
-- KEYS 5:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
-- ARGV 9:
--   1 now, milliseconds; "-" takes the store's clock
--   2 candidate epoch, for a feed that begins, or whose state was lost
--   3 tag, the mark of this call's changes
--   4 known epoch, the furthest position that the caller's process saw; "" when none
--   5 known seq
--   6 known tag
--   7 the server's default policy, as in `policy`
--   8 idle ttl, milliseconds after the last change at which the whole feed expires; 0 never
--   9 live channel
-- RETURNS an array; its first element is "EPOCH SEQ TAG NOW", where the feed stands afterwards
-- REFUSES nothing

local LIST, ROWS, HIST, META, POLICY = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local CANDIDATE, TAG, IDLE = ARGV[2], ARGV[3], ARGV[8]
local MAX_SAFE, MAX_TIME = 9007199254740991, 253402300799999
local call, match, format, concat = redis.call, string.match, string.format, table.concat

-- id rev seq at updated expires|0 count "amount currency"|"" combo_key|"" "ended combo_id"|"", then the
-- three lines that no gift changes as one (test, of a sale "0 LEFT DROP", user, gift), message|"" and "tier meta", each may be "".
local LINE = '([^\n]*)\n'
local function fields_of(row)
  return { match(row, '^' .. string.rep(LINE, 10) .. '([^\n]*\n[^\n]*\n[^\n]*)\n' .. LINE .. '([^ ]*) ([^\n]*)\n$') }
end
local EXPIRES = '^[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n([1-9]%d*)\n'

-- tostring would give 1e+15. Exact up to 2^53, and %d is cheaper than %.0f.
local function int(n)
  return format('%d', n)
end

local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- One trip for all strings. A key of another type reads as missing, and SET writes over it.
local strings = call('MGET', unpack(KEYS, 4))
local entries = call('LRANGE', LIST, 0, -1)
local row_count, hist_count = call('HLEN', ROWS), call('LLEN', HIST)
local overrides = strings[2]

local POLICY_TEXT = '^([%d-]+) ([%a-]+) ([%d-]+) ([%d-]+) ([%d-]+) ([%d-]+) ([%d-]+) ([%d-]+)$'
local function policy_of(text)
  local capacity, dedup, window, ttl, delay, _, idempotency, history = match(ARGV[7], POLICY_TEXT)
  local c, d, w, t, l, _, i, h = match(text or '', POLICY_TEXT)
  local function pick(own, default)
    if own and own ~= '-' then return own end
    return default
  end
  if c then
    capacity, dedup, window, ttl = pick(c, capacity), pick(d, dedup), pick(w, window), pick(t, ttl)
    delay, idempotency, history = pick(l, delay), pick(i, idempotency), pick(h, history)
  end
  return {
    capacity = tonumber(capacity), dedup = dedup, dedup_window = tonumber(window), row_ttl = tonumber(ttl),
    delay = tonumber(delay), idempotency_window = tonumber(idempotency), history = tonumber(history),
  }
end
local policy = policy_of(overrides)

local epoch, seq, tag, covered, expiry, born, idle_before = false, 0, '0', 0, false, false, '0'
local capacity = policy.capacity
-- lost: the list is gone or damaged. strayed: the list is whole, but not what watchers have seen.
local lost, strayed = false, false

-- The state is of no use: the feed is as one that nobody wrote to. Only before the first change.
local function lose()
  lost, strayed, entries = true, false, {}
  epoch, seq, tag, covered, expiry, born = false, 0, '0', 0, false, false
end

-- True when the caller's process has seen what is not, or no longer, this feed's past: the store went
-- back (a failover), and perhaps moved on from there.
local function is_not_past(known_epoch, known_seq, known_tag)
  if known_epoch == '' then return false end
  if known_epoch ~= epoch then return known_epoch > epoch end -- epochs sort by the time they began
  if known_seq >= seq then return known_seq > seq or known_tag ~= tag end
  if known_seq < covered then return false end -- too old to tell
  local next_change = call('LINDEX', HIST, known_seq - seq)
  return match(next_change, '^%d+ (%d+) ') ~= known_tag
end

do
  local e, s, t, c, n, x, b, i, most =
    match(strings[1] or '', '^(%S+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%d+) (%d+)$')
  if e and #entries == tonumber(n) and row_count == #entries then
    epoch, seq, tag, covered, expiry, born, idle_before = e, tonumber(s), t, tonumber(c), tonumber(x), b, i
    capacity = tonumber(most)
    strayed = hist_count < seq - covered or is_not_past(ARGV[4], tonumber(ARGV[5]), ARGV[6])
  elseif strings[1] or #entries + row_count + hist_count > 0 then
    lose()
  end
end
-- A new life of the numbering: watchers of the old one get a snapshot. Scripts that only read leave it
-- to those that commit.
if strayed then
  epoch, covered = CANDIDATE, seq
end

local changes, texts, gone, pushed, relist = {}, {}, {}, 0, false
local count_before = #entries

local function header()
  return (epoch or '0') .. ' ' .. int(seq) .. ' ' .. tag .. ' ' .. int(now)
end

-- Adds a change of this kind; `text` is its row, or "".
local function record(kind, text)
  seq = seq + 1
  changes[#changes + 1] = int(seq) .. ' ' .. tag .. ' ' .. TAG .. ' ' .. kind .. '\n' .. text
  tag = TAG
  if covered < seq - policy.history then covered = seq - policy.history end
end

-- The text of a row that is in the list.
local function row_text(id)
  if texts[id] == nil then texts[id] = call('HGET', ROWS, id) end
  return texts[id]
end

local written = {} -- ids of rows whose text is to be stored
local function put_row(id, text)
  texts[id], written[id] = text, true
end

-- Takes the entry at this index out of the list.
local function drop(at)
  if at <= pushed then
    pushed = pushed - 1
  elseif at < #entries then
    relist = true
  end
  local id = match(table.remove(entries, at), '^%S+')
  texts[id], written[id] = false, nil
  gone[#gone + 1] = id
  return id
end

-- When what lasts this long from now on is over.
local function til(ms)
  return int(math.min(now + ms, MAX_TIME))
end

-- A row that changes now: when its time will be over, as the row spells it.
local function expiry_of_row()
  if policy.row_ttl == 0 then return '0' end
  local at = math.min(now + policy.row_ttl, MAX_TIME)
  if not expiry or at < expiry then expiry = at end
  return int(at)
end

-- Cuts the list to the capacity in force, which takes a seq unless nobody wrote to the feed yet.
local function resize()
  if not epoch or capacity == policy.capacity then return end
  capacity = policy.capacity
  while #entries > capacity do drop(#entries) end
  record('reset', '')
  covered = seq
end

-- What comes before any call looks at the list. The capacity is another when the server's default
-- changed. Rows whose time is over go, the oldest first.
local function settle()
  resize()
  if not expiry or now < expiry then return end
  expiry = false
  for at = #entries, 1, -1 do
    local id = match(entries[at], '^%S+')
    local over = tonumber(match(row_text(id) or '', EXPIRES))
    if over and over <= now then
      drop(at)
      record('expired ' .. id, '')
    elseif over and (not expiry or over < expiry) then
      expiry = over
    end
  end
end

local function write_list()
  if relist or pushed == #entries then
    call('DEL', LIST)
    if #entries > 0 then call('RPUSH', LIST, unpack(entries)) end
    return
  end
  if pushed > 0 then
    local new = {}
    for at = pushed, 1, -1 do new[#new + 1] = entries[at] end
    call('LPUSH', LIST, unpack(new))
  end
  if count_before + pushed > #entries then call('LTRIM', LIST, 0, #entries - 1) end
end

local function write_rows()
  if #gone > 0 then call('HDEL', ROWS, unpack(gone)) end
  local first = next(written)
  if not first then return end
  if not next(written, first) then
    call('HSET', ROWS, first, texts[first])
    return
  end
  local all = {}
  for id in pairs(written) do
    all[#all + 1] = id
    all[#all + 1] = texts[id]
  end
  call('HSET', ROWS, unpack(all))
end

-- hist may be longer than what is covered, so that it is trimmed once in a while and not each time.
local SLACK = 32
local function write_hist()
  local keep = seq - covered
  if keep == 0 then
    if hist_count > 0 then call('DEL', HIST) end
    return
  end
  if #changes > 0 then call('RPUSH', HIST, unpack(changes)) end
  if hist_count + #changes > keep + SLACK then call('LTRIM', HIST, -keep, -1) end
end

-- Writes what the script decided and tells the watchers. `told` is the policy that is new, or "=".
local function commit(told)
  if lost then
    call('DEL', LIST, ROWS, HIST, META)
    count_before, hist_count, gone = 0, 0, {}
  elseif strayed then
    call('DEL', HIST)
    hist_count = 0
  end
  if epoch and (strayed or #changes > 0 or told ~= '=') then
    write_rows()
    if pushed > 0 or #gone > 0 then write_list() end
    write_hist()
    local meta = epoch .. ' ' .. int(seq) .. ' ' .. tag .. ' ' .. int(covered) .. ' ' .. #entries .. ' '
      .. (expiry and int(expiry) or '-') .. ' ' .. born .. ' ' .. IDLE .. ' ' .. int(policy.capacity)
    if IDLE ~= '0' then
      call('SET', META, meta, 'PX', IDLE)
      call('PEXPIRE', LIST, IDLE)
      call('PEXPIRE', ROWS, IDLE)
      call('PEXPIRE', HIST, IDLE)
    else
      call('SET', META, meta)
      if idle_before ~= '0' then
        call('PERSIST', LIST)
        call('PERSIST', ROWS)
        call('PERSIST', HIST)
      end
    end
  end
  if lost or strayed or #changes > 0 or told ~= '=' then
    local flag = (lost or strayed) and 'lost' or 'live'
    local head = flag .. ' ' .. (epoch or '0') .. ' ' .. #changes .. '\n' .. told .. '\n'
    call('PUBLISH', ARGV[9], head .. concat(changes))
  end
end
