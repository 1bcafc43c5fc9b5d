-- common: how every feed_*.lua begins; Rust puts this text in front of theirs.
--
-- A failed script is not rolled back. So the order is: read everything, decide everything, and only
-- then `commit`, in which nothing can fail half way: every read has met every key's type.
--
-- What a feed is made of (all keys in one slot):
--   list    STRING, newest first, a line per row: "ROWID" or "ROWID COMBOKEY"
--   rows    HASH, row id -> row, as engine::record spells it
--   hist    LIST, oldest first: the last changes, one entry per seq; at least `seq - covered` of them
--   meta    STRING: epoch seq tag covered rows expiry|- born idle_ttl capacity changed
--           covered: positions from here on can be brought here by hist alone
--           rows: how many list and rows have; another number means that something was evicted
--           expiry: no row's time is over before this
--           capacity: the list is cut to this; another one in force is a reset
--           born: the epoch in which the list began; locks of another list do not count
--           changed: when the feed changed last
--   policy  see feed/policies
-- A change is "SEQ PREV TAG KIND", newline, and after add and update the row, after drop the drop (drops/stock);
-- kinds: add, update, "expired ROWID", "retracted ROWID", drop, reset. Numbers are decimal text and exact: no row and no
-- change passes through cjson, and sums stop at 2^53-1.
--
-- ARGV of all of them:
--   now              milliseconds; "-" takes the store's clock. Behind a blank the steady time, where that is another
--   candidate_epoch  14 letters, for a feed that begins, or whose state was lost; its last five are the server process that runs
--                    this. Behind a blank, where it is known, a time by which that process was running for certain
--   tag              the mark of this call's changes
--   known_epoch, known_seq, known_tag  the furthest position that the caller's process saw; "" when none
--   default_policy   the server's, JSON that has every member
--   idle_ttl         milliseconds after the last change at which the whole feed expires; 0 never
-- RETURNS an array; its first element is "EPOCH SEQ TAG NOW", where the feed stands afterwards
-- REFUSES with an error DAMAGED when the policy or meta is there and cannot be read

-- This text runs anew with every call, so it is written for speed where that is cheap to read: a
-- redis.call costs 0.3 to 1 µs, a number made into text 0.3, tonumber 0.1 (a sum takes digits as well, for
-- half of it), a function 0.1 to 0.3 (each local it captures is looked for).
local LIST, ROWS, HIST, META = KEYS.list, KEYS.rows, KEYS.hist, KEYS.meta
local CANDIDATE, TAG, IDLE = string.sub(ARGV.candidate_epoch, 1, 14), ARGV.tag, ARGV.idle_ttl
local MAX_SAFE, MAX_TIME = 9007199254740991, 253402300799999
local call, match, format, concat = redis.call, string.match, string.format, table.concat

-- tostring would give 1e+15. Exact up to 2^53, and %d is cheaper than %.0f.
local function int(n)
  return format('%d', n)
end

-- The time as text and as a number; and the one by which windows run, the same unless a clock was set.
local time, steady = match(ARGV.now, '^(%S+) ?(%d*)$')
if time == '-' then
  local t = call('TIME')
  time = t[1] .. string.sub(format('%06d', t[2]), 1, 3)
end
local now = time + 0
steady = tonumber(steady) or now

-- One trip for all strings. A key of another type reads as missing, and SET writes over it.
local strings = call('MGET', LIST, unpack(KEYS, 4))
local row_count, hist_count = call('HLEN', ROWS), call('LLEN', HIST)
local overrides = strings[3]

local entries = {}
for entry in string.gmatch(strings[1] or '', '[^\n]+') do
  entries[#entries + 1] = entry
end

local policy = policies.with(overrides)
-- What is there and cannot be read is neither guessed nor written over.
if not policy then return redis.error_reply('DAMAGED a policy') end

local epoch, seq, tag, covered, expiry, born, idle_before = false, 0, '0', 0, false, false, '0'
local seq_text = '0' -- seq as text
local capacity = policy.capacity
-- lost: the list is gone or damaged. strayed: the list is whole, but not what watchers have seen.
local lost, strayed = false, false

-- The state is of no use: the feed is as one that nobody wrote to. Only before the first change.
local function lose()
  lost, strayed, entries = true, false, {}
  epoch, seq, seq_text, tag, covered, expiry, born = false, 0, '0', '0', 0, false, false
end

do
  local e, s, t, c, n, x, b, i, most, changed =
    match(strings[2] or '', '^(%S+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%d+) (%d+) (%d+)$')
  if strings[2] and not e then return redis.error_reply("DAMAGED a feed's meta") end
  if e and #entries == n + 0 and row_count == #entries then
    epoch, seq, seq_text, tag, covered, born, idle_before, capacity = e, s + 0, s, t, c + 0, b, i, most + 0
    expiry = x ~= '-' and tonumber(x)
    -- A server that was started again may have come back from an older file, and would give the numbers that watchers
    -- have seen to other changes. One that was running before the feed's last change has read no file since: it was
    -- a replica, or the feed's slot came to it. Times of callers, and a change of a time that is still to come, prove nothing.
    local began = ARGV.now == '-' and tonumber(string.sub(ARGV.candidate_epoch, 16))
    local read_file = string.sub(epoch, -5) ~= string.sub(CANDIDATE, -5)
      and not (began and began < changed + 0 and changed + 0 <= now + 1000)
    -- Has the caller's process seen what is not, or no longer, this feed's past? Then the store went
    -- back (a failover), and perhaps moved on from there. Epochs sort by the time they began.
    local known_epoch, known_tag = ARGV.known_epoch, ARGV.known_tag
    local known_seq = known_epoch ~= '' and ARGV.known_seq + 0
    if hist_count < seq - covered or read_file then
      strayed = true
    elseif known_epoch == '' then
      strayed = false
    elseif known_epoch ~= epoch then
      strayed = known_epoch > epoch
    elseif known_seq >= seq then
      strayed = known_seq > seq or known_tag ~= tag
    elseif known_seq >= covered then -- else it is too old to tell
      strayed = match(call('LINDEX', HIST, known_seq - seq), '^%d+ (%d+) ') ~= known_tag
    end
  elseif strings[2] or #entries + row_count + hist_count > 0 then
    lose()
  end
end
-- A new life of the numbering: watchers of the old one get a snapshot. Scripts that only read leave it
-- to those that commit.
if strayed then
  epoch, covered = CANDIDATE, seq
end

-- texts: rows by id, as far as they were read or made; false when gone. written: those to be stored,
-- "new" when rows has none of the id.
-- relist: true when `entries` is to be stored.
local changes, texts, written, gone, relist = {}, {}, {}, {}, false
-- What totals/count puts here, in feeds that count something.
local count_gate, count_gift, count_sale, count_refuses, count_commit

local function header()
  return (epoch or '0') .. ' ' .. seq_text .. ' ' .. tag .. ' ' .. time
end

-- Adds a change of this kind; `text` is its row, or "". `number` is its seq as text, where it is known.
local function record(kind, text, number)
  seq = seq + 1
  seq_text = number or int(seq)
  changes[#changes + 1] = seq_text .. ' ' .. tag .. ' ' .. TAG .. ' ' .. kind .. '\n' .. text
  tag = TAG
  if covered < seq - policy.history then covered = seq - policy.history end
end

-- The text of a row that is in the list.
local function row_text(id)
  if texts[id] == nil then texts[id] = redis.call('HGET', ROWS, id) end
  return texts[id]
end

local function put_row(id, text, is_new)
  texts[id], written[id] = text, is_new or true
end

-- Takes the entry at this index out of the list.
local function drop(at)
  local id = table.remove(entries, at)
  local space = string.find(id, ' ', 1, true)
  if space then id = string.sub(id, 1, space - 1) end
  if written[id] ~= 'new' then gone[#gone + 1] = id end
  texts[id], written[id], relist = false, nil, true
  return id
end

-- When what is remembered for this long is over, by the steady time.
local function til(ms)
  return int(math.min(steady + ms, MAX_TIME))
end

-- A row that changes now: when its time will be over, as the row spells it.
local function expiry_of_row()
  if policy.row_ttl_ms == 0 then return '0' end
  local at = math.min(now + policy.row_ttl_ms, MAX_TIME)
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
    local id = string.match(entries[at], '^%S+')
    local over = string.match(row_text(id) or '', '^[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n([1-9]%d*)\n')
    over = tonumber(over)
    if over and over <= now then
      drop(at)
      record('expired ' .. id, '')
    elseif over and (not expiry or over < expiry) then
      expiry = over
    end
  end
end

-- hist may be longer than what is covered, so that it is trimmed once in a while and not each time.
local SLACK = 32

-- Writes what the script decided and tells the watchers. `told` is the policy that is new, or "=".
local function commit(told)
  local call = redis.call
  if lost then
    call('DEL', LIST, ROWS, HIST, META)
    hist_count, gone, relist = 0, {}, true
  elseif strayed then
    call('DEL', HIST)
    hist_count = 0
  end
  if not (lost or strayed or #changes > 0 or told ~= '=') then return end
  if epoch then
    if #gone > 0 then call('HDEL', ROWS, unpack(gone)) end
    local rows = {}
    for id in pairs(written) do
      rows[#rows + 1] = id
      rows[#rows + 1] = texts[id]
    end
    if #rows > 0 then call('HSET', ROWS, unpack(rows)) end
    local keep = seq - covered
    if keep == 0 then
      if hist_count > 0 then call('DEL', HIST) end
    else
      if #changes > 0 then call('RPUSH', HIST, unpack(changes)) end
      if hist_count + #changes > keep + SLACK then call('LTRIM', HIST, -keep, -1) end
    end
    local list = concat(entries, '\n')
    local meta = epoch .. ' ' .. seq_text .. ' ' .. tag .. ' ' .. int(covered) .. ' ' .. int(#entries) .. ' '
      .. (expiry and int(expiry) or '-') .. ' ' .. born .. ' ' .. IDLE .. ' ' .. int(policy.capacity)
      .. ' ' .. time
    if IDLE ~= '0' then
      call('PSETEX', META, IDLE, meta)
      call('PSETEX', LIST, IDLE, list)
      call('PEXPIRE', ROWS, IDLE)
      call('PEXPIRE', HIST, IDLE)
    else
      -- A list without rows is stored too: what is stored has no time to live.
      if relist then call('MSET', META, meta, LIST, list) else call('SET', META, meta) end
      if idle_before ~= '0' then
        call('PERSIST', LIST)
        call('PERSIST', ROWS)
        call('PERSIST', HIST)
      end
    end
  end
  local flag = (lost or strayed) and 'lost' or 'live'
  local count = #changes == 1 and '1' or int(#changes)
  changes[0] = flag .. ' ' .. (epoch or '0') .. ' ' .. count .. '\n' .. told .. '\n'
  call('SPUBLISH', ARGV.live_channel, concat(changes, '', 0))
end
