-- reader: how every report_*.lua begins; Rust puts ledger's text in front of this one, and this in front of
-- theirs.
--
-- ARGV of all of them: now, milliseconds; "-" takes the store's clock
-- RETURNS nothing by itself
-- REFUSES nothing

local LEDGER, REPORTS, READERS = KEYS.ledger, KEYS.reports, KEYS.readers
-- Of the reader that it is about, where a script has one.
local PENDING, LEASES, TRIES, AGAIN, DEAD, DEATHS = unpack(KEYS, 4, 9)
local call, match, format, sub = redis.call, string.match, string.format, string.sub

local now = clock.now

local function int(n)
  return format('%d', n)
end

-- A number as members and fields have it: as text they sort as numbers do.
local function padded(n)
  return format('%016d', n)
end

local ledger = ledger_of(call('GET', REPORTS), call('LLEN', LEDGER), READERS)
-- The number that the next entry gets, as far as it is known.
local behind = ledger.base + ledger.length

-- Every read that a script does meets every key's type here, before anything is written.
local function meet_types()
  call('HLEN', READERS)
  if PENDING then
    call('ZCARD', PENDING)
    call('ZCARD', LEASES)
    call('HLEN', TRIES)
    call('HLEN', AGAIN)
    call('HLEN', DEAD)
    call('ZCARD', DEATHS)
  end
end

local function new_reader(name, at, since)
  return { name = name, floor = at, handed = at, lost = 0, since = since or at, progress = '', gone = {}, untold = '' }
end

-- A reader, brought up to what the ledger still has; none when it does not read here. gone: what it had pending of
-- entries that were cut.
local function reader_of(name)
  local text = call('HGET', READERS, name)
  if not text then return nil end
  local floor, handed, lost, since, untold, progress = match(text, '^(%d+) (%d+) (%d+) (%d+) ?([%d ]*)\n([^\n]*)$')
  local it = new_reader(name, tonumber(floor or '0'), tonumber(since or '0'))
  it.handed, it.lost, it.progress, it.untold = tonumber(handed or '0'), tonumber(lost or '0'), progress or '', untold or ''
  if it.floor < ledger.base then
    if PENDING then it.gone = call('ZRANGEBYSCORE', PENDING, '-inf', '(' .. int(ledger.base)) end
    local first = math.max(it.handed, ledger.start)
    it.lost = it.lost + #it.gone + math.max(0, ledger.base - first)
    if first < ledger.base then it.untold = lost_too(it.untold, first, ledger.base - 1) end
    it.handed = math.max(it.handed, ledger.base)
    it.floor = it.handed
    local first = PENDING and call('ZRANGEBYSCORE', PENDING, int(ledger.base), '+inf', 'LIMIT', '0', '1')[1]
    if first then it.floor = math.min(it.floor, tonumber(first)) end
  end
  return it
end

-- Takes out what is gone, and tells of what the reader never was handed: an entry of its own, which comes before all others. Its
-- number is the last of these. Before anything else is written.
local function let_go(it)
  in_parts('ZREM', PENDING, it.gone)
  in_parts('ZREM', LEASES, it.gone)
  in_parts('HDEL', TRIES, it.gone)
  if it.untold == '' or match(it.untold, ' 0$') then return false end
  local from, to, count = match(it.untold, '^(%d+) (%d+) (%d+)$')
  local member = padded(tonumber(to))
  call('HSET', AGAIN, member, '{"at":' .. int(now) .. ',"seq":0,"type":"lost","unseen":true,"lost":{"from":"' .. from .. '","to":"' .. to
    .. '","count":' .. count .. '}}')
  if sub(it.name, 1, 2) == 'g:' then
    call('ZADD', LEASES, '0', member)
    call('HSET', TRIES, member, '0')
  end
  it.untold = match(it.untold, '^%d+ %d+') .. ' 0'
  return true
end

local function keep_reader(it)
  call('HSET', READERS, it.name, int(it.floor) .. ' ' .. int(it.handed) .. ' ' .. int(it.lost) .. ' '
    .. int(it.since) .. (it.untold ~= '' and ' ' .. it.untold or '') .. '\n' .. it.progress)
end

-- Keeps a group; behind what else is written of it.
local function keep_group(it)
  local first = call('ZRANGE', PENDING, '0', '0')[1]
  it.floor = math.min(tonumber(first or it.handed) or it.handed, it.handed)
  keep_reader(it)
end

local function keep_reports()
  if ledger.broken then call('DEL', LEDGER) end
  call('SET', REPORTS, reports_of(ledger))
end

-- Takes a webhook out of those that rest.
local function wake(name)
  local rest = {}
  for one in string.gmatch(ledger.idle, '[^;]+') do
    if one ~= '-' and sub(one, 1, #name + 1) ~= name .. ',' then rest[#rest + 1] = one end
  end
  ledger.idle = #rest > 0 and table.concat(rest, ';') or '-'
end

-- Puts it among them, from now on with this stamp.
local function rest(name, batch_ms, stamp)
  wake(name)
  local one = name .. ',' .. batch_ms .. ',' .. stamp
  ledger.idle = ledger.idle == '-' and one or ledger.idle .. ';' .. one
end

-- How long a webhook dozes before it rests.
local DOZE = 2000

-- In how many milliseconds a webhook that has nothing to send is to be looked at again, because it dozes; nothing
-- when it rests from now on.
local function doze(name, batch_ms, stamp)
  for one in string.gmatch(ledger.idle, '[^;]+') do
    local reader, since = match(one, '^([^,]+),%d+,~(%d+)$')
    if reader == name then
      local left = since + DOZE - now
      if left > DOZE / 10 and left <= DOZE then return left end
      return rest(name, batch_ms, stamp)
    end
  end
  rest(name, batch_ms, '~' .. int(now))
  return DOZE
end

-- The text of an entry of the ledger, if it has it.
local function entry_at(number)
  if number < ledger.base or number >= behind then return false end
  return call('LINDEX', LEDGER, int(number - ledger.base))
end

-- Dead letters that make room in one step, at most, for each that comes.
local ROOM = 16
-- How many dead letters were lost by this call.
local lost_letters = 0

-- Makes an entry a dead letter of this reader. Letters are kept for as long as the ledger has their entries, and of the others
-- `most`. The oldest make room: they count as lost, and the reader gets an entry that says so.
local function bury(reader, number, text, attempts, reason, most)
  local member = padded(number)
  call('HSET', DEAD, member, int(now) .. ' ' .. int(attempts) .. ' ' .. reason .. '\n' .. text)
  local last = tonumber(call('ZRANGE', DEATHS, '-1', '-1', 'WITHSCORES')[2] or '0')
  call('ZADD', DEATHS, int(math.max(now * 1000, last + 1)), member)
  local over = math.min(call('ZCARD', DEATHS) - most, ROOM)
  if over <= 0 then return end
  for _, oldest in ipairs(call('ZRANGE', DEATHS, '0', int(over - 1))) do
    local its_number = tonumber(oldest)
    if its_number < ledger.base then
      call('HDEL', DEAD, oldest)
      call('ZREM', DEATHS, oldest)
      reader.lost, lost_letters = reader.lost + 1, lost_letters + 1
      reader.untold = lost_too(reader.untold, its_number, its_number)
    end
  end
end

-- True when there are as many readers as there may be; webhooks of all feeds do not count.
local function is_full(most)
  if call('HLEN', READERS) < most then return false end
  local own = 0
  for _, name in ipairs(call('HKEYS', READERS)) do
    if sub(name, 1, 2) ~= '*:' then own = own + 1 end
  end
  return own >= most
end

-- Forgets a reader with all it has.
local function forget(name)
  local was = call('HDEL', READERS, name)
  if PENDING then call('DEL', PENDING, LEASES, TRIES, AGAIN, DEAD, DEATHS) end
  if was == 1 then
    ledger.readers = ledger.readers - 1
    wake(name)
    keep_reports()
  end
  return was
end
