-- plain: how publish_plain and publish_plain_counted take gifts; Rust puts this text in front of both. It decides before
-- its first write, and nothing fails behind that. What is written is described in feed_common, feed_gifts, ledger and
-- feed_count.
-- Redis' Lua hashes every byte of every text that is made, 4 to 5 cycles each: so texts are put together once, and those
-- that nobody needs are not.
--
-- KEYS 5:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
-- ARGV 13:
--   1 now, milliseconds; "-" takes the store's clock
--   2 tag
--   3 known epoch
--   4 known seq
--   5 known tag
--   6 live channel
--   7 hooks version
--   8 known policy: what the caller takes the policy's key to hold, "" for nothing
--   9 capacity, and what else follows from that policy
--   10 history, not 0
--   11 idempotency window
--   12 dedup window, 0 where no lock is taken
--   13 ledger max: entries that are kept though nobody reads
-- RETURNS see publish_plain
-- REFUSES with "": nothing was done, feed_publish is to be called; and with "", "policy", and what the policy's key holds

local call, match, format, concat = redis.call, string.match, string.format, table.concat
local LIST, META, TAG, CAPACITY, HISTORY = KEYS[1], KEYS[4], ARGV[2], ARGV[9] + 0, ARGV[10] + 0

-- `reports` is where that key is; the ledger is KEYS 6, and behind reports are blocks, and count and left where gifts
-- count. `key` and `a` are where the first gift's KEYS and ARGV are, which has `step` of the latter. `counts`: where gifts
-- count, it says so and how.
local function take(reports, key, a, step, counts)
  local GIFTS, LOCKED = (#KEYS - key + 1) / 2, ARGV[12] ~= '0'

  -- A key of another type reads as missing.
  local strings = call('MGET', LIST, META, KEYS[5], unpack(KEYS, reports))
  if (strings[3] or '') ~= ARGV[8] then return { '', 'policy', strings[3] or '' } end
  local list = strings[1]
  local epoch, seq, tag, covered, count, born, capacity =
    match(strings[2] or '', '^(%S+) (%d+) (%d+) (%d+) (%d+) %- (%S+) 0 (%d+)$')
  local limit, hooks, readers, start, base = match(strings[4] or '', '^(%d+) (%d+) %- (%d+) (%d+) (%d+) ?%d*$')
  if not epoch or not limit or not list or strings[5] or hooks ~= ARGV[7] or capacity + 0 ~= CAPACITY then
    return { '' }
  end
  seq, covered, count = seq + 0, covered + 0, count + 0
  local hist_count, entries = call('LLEN', KEYS[3]), call('LLEN', KEYS[6])
  if hist_count < seq - covered or call('HLEN', KEYS[2]) ~= count or entries == 0 or entries > limit + 0 then
    return { '' }
  end
  -- Where somebody reads, there is more to be asked before something is cut.
  local is_long = entries + GIFTS > limit + 0
  if is_long and (readers ~= '0' or ARGV[13] == '0') then return { '' } end
  -- Has the caller seen what is not this feed's past?
  local known_epoch, known_seq = ARGV[3], ARGV[4]
  if known_epoch ~= '' then
    known_seq = known_seq + 0
    if known_epoch ~= epoch then
      if known_epoch > epoch then return { '' } end
    elseif known_seq >= seq then
      if known_seq > seq or ARGV[5] ~= tag then return { '' } end
    elseif known_seq >= covered then
      if match(call('LINDEX', KEYS[3], known_seq - seq), '^%d+ (%d+) ') ~= ARGV[5] then return { '' } end
    end
  end

  local now, time = ARGV[1], ARGV[1]
  if now == '-' then
    local clock = call('TIME')
    now = clock[1] * 1000 + (clock[2] - clock[2] % 1000) / 1000
    time = format('%d', now)
  end
  now = now + 0
  -- Times end with the year 9999.
  if now + math.max(ARGV[11] + 0, ARGV[12] + 0) > 253402300799999 then return { '' } end
  local ids_at = key - reports + 4
  for at = ids_at, ids_at - 1 + 2 * GIFTS do
    local text = strings[at]
    -- A lock that is over is none.
    if text and ((at - ids_at) % 2 == 0 or now < match(text, '^(%d*)') + 0) then return { '' } end
  end

  -- What falls out of the list, the oldest last.
  local gone, kept = {}, list
  local room = CAPACITY - GIFTS
  if count == room + 1 and count > 1 then
    kept, gone[1] = match(list, '^(.*)\n([^\n ]+)[^\n]*$')
    if not kept then return { '' } end
    count = room
  elseif count > room then
    local at = {}
    for line in string.gmatch(list, '[^\n]+') do
      at[#at + 1] = line
    end
    if #at ~= count then return { '' } end
    for n = count, math.max(room, 0) + 1, -1 do
      gone[#gone + 1] = match(at[n], '^%S+')
      at[n] = nil
    end
    kept, count = concat(at, '\n'), #at
  end

  -- The last that can refuse, and the first that writes.
  local kept_til, counted_in
  if counts then
    local no
    no, kept_til, counted_in = counts(strings, now, time)
    if no then return no end
  end

  local shown_til, locked_til = format('%d', now + ARGV[11]), format('%d', now + ARGV[12])
  local id_px, lock_px = format('%d', (kept_til and kept_til - now or ARGV[11]) + 60000), format('%d', ARGV[12] + 60000)
  local times = '\n' .. time .. '\n' .. time .. '\n0\n'
  local answers, changes, fresh, rows, ids, parts = {}, {}, {}, {}, {}, {}
  local number, first = '', math.max(1, GIFTS - CAPACITY + 1)
  local remembered = counts and ' ' .. format('%d', kept_til) .. ' ' .. counted_in .. ' '
  for gift = 1, GIFTS do
    seq = seq + 1
    number = format('%d', seq)
    local id, body = epoch .. '-' .. number, ARGV[a + 1]
    changes[gift] = number .. ' ' .. tag .. ' ' .. TAG .. ' add\n' .. id .. '\n1\n' .. number .. times .. body
    fresh[gift] = 'a ' .. number .. ' ' .. id .. ' ' .. time .. '\n' .. ARGV[a + 2] .. '\n' .. body
    tag = TAG
    if gift >= first then
      rows[#rows + 1], rows[#rows + 2] = id, id .. '\n1\n' .. number .. times .. body
      ids[GIFTS - gift + 1] = id
      if counts then parts[#parts + 1], parts[#parts + 2] = id, '=' .. counted_in .. ' ' .. ARGV[a + 4] end
    end
    local answer
    if counts then
      answer = shown_til .. ' ' .. ARGV[a] .. ' a ' .. epoch .. ' ' .. number .. ' ' .. id .. ' - ' .. ARGV[a + 3] .. remembered
        .. ARGV[a + 4]
    else
      answer = shown_til .. ' ' .. ARGV[a] .. ' a ' .. epoch .. ' ' .. number .. ' ' .. id .. ' - ' .. ARGV[a + 3]
    end
    answers[gift + 1] = answer
    call('PSETEX', KEYS[key], id_px, answer)
    if LOCKED then call('PSETEX', KEYS[key + 1], lock_px, locked_til .. ' ' .. id .. ' ' .. born) end
    a, key = a + step, key + 2
  end

  if counts then call('HSET', KEYS[8], unpack(parts)) end
  call('RPUSH', KEYS[6], unpack(fresh))
  entries = entries + GIFTS
  if is_long then
    local most = ARGV[13] + 0
    call('LTRIM', KEYS[6], -most, -1)
    limit, base, entries = most + math.min(256, math.floor(most / 32)), base + entries - most, most
  end
  if is_long or readers ~= '0' then
    call('SET', KEYS[reports], format('%d %s - %s %s %d %d', limit, hooks, readers, start, base, entries))
  end
  call('RPUSH', KEYS[3], unpack(changes))
  if covered < seq - HISTORY then covered = seq - HISTORY end
  -- Trimmed once in a while: 32 more than is covered.
  if hist_count + GIFTS > seq - covered + 32 then call('LTRIM', KEYS[3], covered - seq, -1) end
  if #gone > 0 then call('HDEL', KEYS[2], unpack(gone)) end
  call('HSET', KEYS[2], unpack(rows))
  if count > 0 then ids[#ids + 1] = kept end
  count = count + #rows / 2
  call('MSET', LIST, concat(ids, '\n'), META, epoch .. ' ' .. number .. ' ' .. TAG .. ' ' .. format('%d %d', covered, count)
    .. ' - ' .. born .. ' 0 ' .. capacity)
  changes[0] = 'live ' .. epoch .. ' ' .. GIFTS .. '\n=\n'
  call('SPUBLISH', ARGV[6], concat(changes, '', 0))
  answers[1] = epoch .. ' ' .. number .. ' ' .. TAG .. ' ' .. time
  return answers
end
