-- usual: publishes gifts of which nothing special has to be known, before any module is made: each is a new row, shown at once, of a
-- feed where nobody is blocked and no goal is left. From the reads to the writes in one line, without the functions and tables that
-- other gifts need: 341 000 instructions of Redis 7.0 for a lone gift, where the modules take 520 000, and 85 000 in a batch of 64,
-- where they take 110 000. Writes exactly what the modules would write (a test compares them); where that may be more, its answer
-- is nil, and nothing was written.
--
-- A call of redis costs 3 000 to 6 000 of them, a function 1 000, a number that is made into text 2 000.

local call, match, format = redis.call, string.match, string.format
local TAG, known_epoch, gifts = ARGV.tag, ARGV.known_epoch, ITEM_COUNT
local list, own, counting = STRINGS.list, STRINGS.policy, STRINGS.count
if not list or STRINGS.blocks or ARGV.idle_ttl ~= '0' or ARGV.blocked_everywhere ~= '' then return nil end
for n = 1, gifts do
  if STRINGS.id[n] or ARGV.entry[n] == '' or ARGV.show[n] ~= '' or ARGV.combo[n] ~= '' then return nil end
end

local epoch, before, tag, covered, count, born, capacity, changed =
  match(STRINGS.meta or '', '^(%S+) (%d+) (%d+) (%d+) (%d+) %- (%S+) 0 (%d+) (%d+)$')
if not epoch then return nil end
local seq = before + 0
covered, count = covered + 0, count + 0
-- What the caller's process has seen must be this feed's past. Most of the time it is all of it.
if known_epoch ~= '' and (ARGV.known_seq ~= before or known_epoch ~= epoch or ARGV.known_tag ~= tag) then
  local known_seq = ARGV.known_seq + 0
  if known_epoch ~= epoch or known_seq >= seq then return nil end
  -- hist does not reach back below `covered`.
  local change = known_seq >= covered and (call('LINDEX', KEYS.hist, known_seq - seq) or '')
  if change and match(change, '^%d+ (%d+) ') ~= ARGV.known_tag then return nil end
end

local policy = policies.with(own)
if not policy or not counting and #policies.defaults.totals > 0 then return nil end
if policy.review == 'all' or policy.row_ttl_ms > 0 or policy.delay_ms > 0 then return nil end
if policy.capacity ~= capacity + 0 then return nil end
local window, remembered, shown_most, review = policy.dedup_window_ms, policy.idempotency_window_ms, policy.capacity, policy.review
local locks = policy.dedup ~= 'off'

local time, steady = match(ARGV.now, '^(%S+) ?(%d*)$')
if time == '-' then
  local clock = call('TIME')
  time = clock[1] .. string.sub(format('%06d', clock[2]), 1, 3)
end
local now = tonumber(time)
-- Windows run by the steady time, where that is another.
steady = tonumber(steady) or now
-- Times end with the year 9999.
if math.max(now, steady) + math.max(window, remembered) > 253402300799999 then return nil end
-- Begun by another process of the server: see feed/doubt.
if string.sub(epoch, -5) ~= string.sub(ARGV.candidate_epoch, 10, 14) then
  local began = ARGV.now == '-' and tonumber(string.sub(ARGV.candidate_epoch, 16))
  if not began or began >= changed + 0 or changed + 0 > now + 1000 then return nil end
end

-- No gift is another's twin, or meets a lock.
local seen = gifts > 1 and {}
for n = 1, gifts do
  local held = locks and STRINGS.lock[n]
  if held and lock.row_of(held, steady, born) then return nil end
  if seen then
    local id, its_lock = KEYS.id[n], KEYS.lock[n]
    if seen[id] or locks and seen[its_lock] then return nil end
    seen[id], seen[its_lock] = true, true
  end
end

-- Where messages wait for a host: gifts without one, whose names were approved (see feed/screening).
if review == 'messages' then
  local approved = {}
  for n = 1, gifts do
    local person, message = match(ARGV.body[n],
      '^[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n([^\n]*)\n[^\n]*\n([^\n]*)\n')
    local user, name = match(person, '^{"id":(.-),"name":(".-"),"a') -- with an avatar, or anonymous
    if not user then user, name = match(person, '^{"id":(.-),"name":(".*")}$') end
    if message ~= '' or not user then return nil end
    approved[n] = user .. ' ' .. name
  end
  for _, til in ipairs(call('ZMSCORE', KEYS.approved, unpack(approved))) do
    if not til or now >= til + 0 then return nil end
  end
end

-- What counts is appended to tally; the time of the next announcement must be set already (see totals/count).
local span, points, kept_til
if counting then
  local opens, ends, keep
  opens, ends, keep, span, points = match(counting, '^(%d+) (%d+) (%d+) (%S+) (%S+)$')
  if not opens or span == '-' or now < opens + 0 or now >= ends + 0 then return nil end
  local announced_at, goals = match(STRINGS.left or '', '^(%d+) . ?(.*)$')
  local struck = call('ZSCORE', KEYS.due, '0000000000000000 ttotals')
  if goals ~= '' or not struck or struck + 0 > math.max(now + 200, announced_at + 600) then return nil end
  call('LLEN', KEYS.tally)
  call('HLEN', KEYS.parts)
  kept_til = math.min(math.max(math.min(keep + 0, now + 3024000000), now + remembered), 253402300799999)
end

-- The ledger: the change itself notifies its readers, and nothing is to be cut yet.
local limit, hooks, readers, first_number = match(STRINGS.reports or '', '^(%d+) (%d+) %- (%d+) %d+ (%d+)')
if not limit or hooks ~= ARGV.hooks_version then return nil end
local entries = call('LLEN', KEYS.ledger)
if entries == 0 or entries + gifts > limit + 0 then return nil end
local changes_kept = call('LLEN', KEYS.hist)
if changes_kept < seq - covered or call('HLEN', KEYS.rows) ~= count then return nil end

-- What leaves the list, the oldest first.
local gone, kept, over = {}, list, count + gifts - shown_most
if over >= count then
  for id in string.gmatch(list, '([^\n ]+)[^\n]*') do gone[#gone + 1] = id end
  kept, count = '', 0
elseif over > 0 then
  for n = 1, over do
    kept, gone[n] = match(kept, '^(.*)\n([^\n ]+)[^\n]*$')
    if not kept then return nil end
  end
  count = count - over
end

-- Texts: of the first gifts of a call that are more than the list takes, only the change and the entry stay.
local first = math.max(1, gifts - shown_most + 1)
local shown, times = gifts - first + 1, '\n' .. time .. '\n' .. time .. '\n0\n'
local receipt_begin, next_entry = '{"until":' .. format('%d', steady + remembered) .. ',"fingerprint":"', first_number + entries - 1
local changes, fresh, rows, lines, answers, names, number = {}, {}, {}, {}, {}, {}, nil
local tally, parts, tail = { '@+ ' .. (span or '') .. ' ' .. time }, {}, kept_til and format(',"keep_until":%d,"counted":', kept_til)
for n = 1, gifts do
  local body = ARGV.body[n]
  number = format('%d', seq + n)
  local id = epoch .. '-' .. number
  local row = id .. '\n1\n' .. number .. times .. body
  names[n] = id
  changes[n] = number .. ' ' .. tag .. ' ' .. TAG .. ' add\n' .. row
  fresh[n] = 'a ' .. number .. ' ' .. id .. ' ' .. time .. '\n' .. ARGV.entry[n] .. '\n' .. body
  if n >= first then
    local at = 2 * (n - first) + 1
    rows[at], rows[at + 1], lines[gifts - n + 1] = id, row, id
  end
  local units, amount, currency = match(body, '^(%d+)\n(%d*) ?(%a*)\n')
  local answer = receipt_begin .. ARGV.fingerprint[n] .. '","status":"accepted","row":"' .. id .. '","added":{"units":' .. units
    .. (amount ~= '' and ',"amount":' .. amount .. ',"currency":"' .. currency .. '"}' or '}')
  if span then
    local worth = '0'
    if amount ~= '' then
      local each = match(',' .. points, ',' .. currency .. ':(%d+)')
      if each then worth = format('%d', math.min(amount * each, 9007199254740991)) end
      amount = amount .. ':' .. currency
    else
      amount = '-'
    end
    local flag = ARGV.ranked[n] == '1' and 'r' or '-'
    local counted = '1 ' .. units .. ' ' .. worth .. ' ' .. amount .. ' ' .. flag .. ' ' .. ARGV.user[n]
    tally[2 * n], tally[2 * n + 1] = counted, match(body, '^[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n([^\n]*)\n')
    local text = span .. ' ' .. counted
    answer = answer .. tail .. cjson.encode(text)
    if n >= first then
      local at = 2 * (n - first) + 1
      parts[at], parts[at + 1] = id, '=' .. text
    end
  end
  answers[n] = answer .. format(',"entry":%d}', next_entry + n)
  tag = TAG
end

-- Nothing fails from here on: every read has met its key's type.
if gone[1] then call('HDEL', KEYS.rows, unpack(gone)) end
call('HSET', KEYS.rows, unpack(rows))
local last = seq + gifts
if covered < last - policy.history then covered = last - policy.history end
local keep = last - covered
if keep == 0 then
  call('DEL', KEYS.hist)
else
  call('RPUSH', KEYS.hist, unpack(changes))
  -- Trimmed once in a while, see feed/feed.
  if changes_kept + gifts > keep + 32 then call('LTRIM', KEYS.hist, format('%d', -keep), '-1') end
end
if count > 0 then lines[shown + 1] = kept end
local head = epoch .. ' ' .. number .. ' ' .. TAG .. ' '
call('MSET', KEYS.meta, head .. format('%d %d - ', covered, count + shown) .. born .. ' 0 ' .. capacity .. ' ' .. time,
  KEYS.list, table.concat(lines, '\n'))
changes[0] = 'live ' .. epoch .. ' ' .. format('%d', gifts) .. '\n=\n'
call('SPUBLISH', ARGV.live_channel, table.concat(changes, '', 0))
local id_px = format('%d', (kept_til and kept_til - now or remembered) + 60000)
local lock_px, lock_begin = locks and window > 0 and format('%d', window + 60000), lock.before_row(steady + window, born)
for n = 1, gifts do
  call('PSETEX', KEYS.id[n], id_px, answers[n])
  if lock_px then call('PSETEX', KEYS.lock[n], lock_px, lock_begin .. names[n] .. lock.AFTER_ROW) end
end
call('RPUSH', KEYS.ledger, unpack(fresh))
if readers ~= '0' then
  call('SET', KEYS.reports, match(STRINGS.reports, '^%S+ %S+ %S+ %S+ %S+ %S+') .. format(' %d', entries + gifts))
end
if span then
  if gone[1] then call('HDEL', KEYS.parts, unpack(gone)) end
  call('HSET', KEYS.parts, unpack(parts))
  call('RPUSH', KEYS.tally, unpack(tally))
end
return { head .. time }
