-- plain_write: how publish_plain and publish_plain_counted write; Rust puts this text behind theirs. FIRST_KEY, FIRST_ARG
-- and GIFT_ARGS say where the gifts' KEYS and ARGV are.
--
-- What is appended first shows by the length that it answers whether the list was there, which saves asking for it; and
-- it can be taken back as long as nothing else was written. What is appended or removed behind it may therefore still
-- refuse. From the first id on nothing fails.
-- RETURNS see publish_plain
-- REFUSES see plain

local GIFTS = (#KEYS - FIRST_KEY + 1) / 2
for at = FIRST_KEY - 3, #KEYS - 3, 2 do
  -- A lock that is over, or no lock, is none.
  if strings[at] or strings[at + 1] and now < (match(strings[at + 1], '^%d+') or 0) + 0 then return { '' } end
end

-- What falls out of the list, the oldest last.
local gone, kept, first = {}, list, 1
local over = count + GIFTS - CAPACITY
if over == 1 and count > 1 then
  -- Ids grow, so the last line is as long as the one of the last seq, or a little shorter.
  local long, byte = #epoch + 1 + #before, string.byte
  local least = long - 3
  while long > least and byte(list, -1 - long) ~= 10 do long = long - 1 end
  local last = string.sub(list, -long)
  if long > least and not string.find(last, '%s') then
    gone[1], kept = last, string.sub(list, 1, -2 - long)
  else
    kept, gone[1] = match(list, '^(.*)\n([^\n ]+)[^\n]*$')
    if not kept then return { '' } end
  end
  count = count - 1
elseif over > 0 then
  local at = {}
  for line in string.gmatch(list, '[^\n]+') do
    at[#at + 1] = line
  end
  if #at ~= count then return { '' } end
  for n = count, math.max(count - over, 0) + 1, -1 do
    gone[#gone + 1] = match(at[n], '^%S+')
    at[n] = nil
  end
  kept, count, first = table.concat(at, '\n'), #at, math.max(1, GIFTS - CAPACITY + 1)
end

-- Tables are made with room for one gift, which costs less than to let them grow.
local TAG, shown, last = ARGV[1], GIFTS - first + 1, seq + GIFTS
local times, arg, number = '\n' .. time .. '\n' .. time .. '\n0\n', FIRST_ARG, before
local changes, fresh, rows, ids, names, numbers = { '' }, { '' }, { '', '' }, { '', '' }, { '' }, { '' }
for gift = 1, GIFTS do
  number = format('%d', seq + gift)
  local id, body = epoch .. '-' .. number, ARGV[arg + 1]
  names[gift], numbers[gift] = id, number
  if gift < first then
    changes[gift] = number .. ' ' .. tag .. ' ' .. TAG .. ' add\n' .. id .. '\n1\n' .. number .. times .. body
  else
    local row, at = id .. '\n1\n' .. number .. times .. body, gift - first + 1
    changes[gift], ids[shown - at + 1] = number .. ' ' .. tag .. ' ' .. TAG .. ' add\n' .. row, id
    rows[2 * at - 1], rows[2 * at] = id, row
  end
  fresh[gift] = 'a ' .. number .. ' ' .. id .. ' ' .. time .. '\n' .. ARGV[arg + 2] .. '\n' .. body
  tag, arg = TAG, arg + GIFT_ARGS
end

-- Takes back what was appended: to the ledger, to hist, to tally; as many of them as it is told.
local function undone(lists)
  local own = format('%d', -1 - GIFTS)
  call('LTRIM', KEYS[3], '0', own)
  if lists > 1 then call('LTRIM', KEYS[2], '0', own) end
  if lists > 2 and elements then call('LTRIM', KEYS[9], '0', format('%d', -1 - #elements)) end
  return { '' }
end
local pcall = redis.pcall
local entries = call('RPUSHX', KEYS[3], unpack(fresh))
if entries == 0 then return { '' } end
-- Where somebody reads, there is more to be asked before something is cut.
local is_long, start, base = entries > limit, nil, nil
if is_long or readers ~= '0' then
  start, base = match(strings[4], '^%d+ %d+ %- %d+ (%d+) (%d+)')
  if not base or is_long and (readers ~= '0' or LEDGER_MAX == '0' or entries - GIFTS > limit) then return undone(1) end
end
local length = pcall('RPUSHX', KEYS[2], unpack(changes))
if length == 0 or type(length) == 'table' then return undone(1) end
if length < last - covered then return undone(2) end
if elements then
  -- Only behind others: while there are any, the clock of totals stands in due.
  local waiting = pcall('RPUSHX', KEYS[9], unpack(elements))
  if waiting == 0 or type(waiting) == 'table' then
    undone(2)
    return { '', 'once' }
  end
end
-- Whether rows are there: once the list is full, by what leaves them.
local is, was
if gone[1] then is, was = pcall('HDEL', KEYS[1], unpack(gone)), #gone else is, was = pcall('HLEN', KEYS[1]), count end
if is ~= was then return undone(3) end

local shown_til, mid = format('%d ', now + REMEMBERED), ' a ' .. epoch .. ' '
local id_px = format('%d', (kept_til and kept_til - now or REMEMBERED) + 60000)
local counted_tail = kept_til and format(' %d ', kept_til) .. span .. ' '
local lock_px, lock_til = LOCKED > 0 and format('%d', LOCKED + 60000), format('%d ', now + LOCKED)
local parts = kept_til and {}
arg = FIRST_ARG
for gift = 1, GIFTS do
  local id, key = names[gift], FIRST_KEY + 2 * gift - 2
  local answer = shown_til .. ARGV[arg] .. mid .. numbers[gift] .. ' ' .. id .. ' - ' .. ARGV[arg + 3]
  if kept_til then
    answer = answer .. counted_tail .. ARGV[arg + 4]
    if gift >= first then parts[#parts + 1], parts[#parts + 2] = id, '=' .. span .. ' ' .. ARGV[arg + 4] end
  end
  call('PSETEX', KEYS[key], id_px, answer)
  if lock_px then call('PSETEX', KEYS[key + 1], lock_px, lock_til .. id .. ' ' .. born) end
  arg = arg + GIFT_ARGS
end

if kept_til then
  call('HSET', KEYS[10], unpack(parts))
  if left then call('SET', KEYS[12], left) end
end
if base then
  if is_long then
    local most = LEDGER_MAX + 0
    call('LTRIM', KEYS[3], '-' .. LEDGER_MAX, '-1')
    limit, base, entries = most + math.min(256, math.floor(most / 32)), base + entries - most, most
  end
  call('SET', KEYS[7], format('%d %s - %s %s %d %d', limit, hooks, readers, start, base, entries))
end
-- Trimmed once in a while: 32 more than is covered.
if covered < last - HISTORY then covered = last - HISTORY end
if length > last - covered + 32 then call('LTRIM', KEYS[2], format('%d', covered - last), '-1') end
call('HSET', KEYS[1], unpack(rows))
local head = epoch .. ' ' .. number .. ' ' .. TAG .. ' '
if count > 0 then ids[shown + 1] = kept else ids[shown + 1] = nil end
call('MSET', KEYS[4], table.concat(ids, '\n'), KEYS[5],
  head .. format('%d %d - ', covered, count + shown) .. born .. ' 0 ' .. capacity)
local told = 'live ' .. epoch .. ' ' .. format('%d', GIFTS) .. '\n=\n'
if GIFTS == 1 then
  told = told .. changes[1]
else
  changes[0] = told
  told = table.concat(changes, '', 0)
end
call('SPUBLISH', ARGV[3], told)
return { head .. time }
