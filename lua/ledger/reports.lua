-- reports: the state of a feed's ledger, and the readers that it has. The format of both is in ledger/stored.

local call, match, sub = redis.call, string.match, string.sub

local function int(number)
  return string.format('%d', number)
end

local ledger = stored.ledger_of(call('GET', KEYS.reports), call('LLEN', KEYS.ledger), KEYS.readers)
-- How long a webhook dozes before it rests.
local DOZE_MS = 2000
-- behind: the number that the next entry gets, as far as it is known.
local reports = { int = int, ledger = ledger, behind = ledger.base + ledger.length }

-- A number as members and fields have it: as text they sort as numbers do.
function reports.padded(number)
  return string.format('%016d', number)
end

-- The text of an entry of the ledger, if it has it.
function reports.entry_at(number)
  if number < ledger.base or number >= reports.behind then return false end
  return call('LINDEX', KEYS.ledger, int(number - ledger.base))
end

-- The number of the first entry, from `least` on, that happened at this time or later.
function reports.first_since(since, least)
  local function is_before(number) return (stored.entry_time(reports.entry_at(number)) or 0) < since end
  return stored.bisect(least, reports.behind, is_before)
end

-- A reader that begins with this number. `since` is what it reads from on, where that is another one.
function reports.new_reader(name, number, since)
  return { name = name, floor = number, handed = number, lost = 0, since = since or number, progress = '', gone = {}, untold = '' }
end

-- A reader as it is stored; nil when it does not read here.
function reports.find(name)
  local text = call('HGET', KEYS.readers, name)
  if not text then return nil end
  local floor, handed, lost, since, untold, progress = match(text, '^(%d+) (%d+) (%d+) (%d+) ?([%d ]*)\n([^\n]*)$')
  local it = reports.new_reader(name, tonumber(floor or '0'), tonumber(since or '0'))
  it.handed, it.lost, it.progress, it.untold = tonumber(handed or '0'), tonumber(lost or '0'), progress or '', untold or ''
  return it
end

function reports.keep_reader(it)
  call('HSET', KEYS.readers, it.name, int(it.floor) .. ' ' .. int(it.handed) .. ' ' .. int(it.lost) .. ' '
    .. int(it.since) .. (it.untold ~= '' and ' ' .. it.untold or '') .. '\n' .. it.progress)
end

function reports.keep()
  if ledger.broken then call('UNLINK', KEYS.ledger) end
  call('SET', KEYS.reports, stored.reports_of(ledger))
end

-- Takes a webhook out of those that rest.
function reports.wake(name)
  local rest = {}
  for one in string.gmatch(ledger.idle, '[^;]+') do
    if one ~= '-' and sub(one, 1, #name + 1) ~= name .. ',' then rest[#rest + 1] = one end
  end
  ledger.idle = #rest > 0 and table.concat(rest, ';') or '-'
end

-- Puts it among them, from now on with this stamp.
function reports.rest(name, batch_ms, stamp)
  reports.wake(name)
  local one = name .. ',' .. batch_ms .. ',' .. stamp
  ledger.idle = ledger.idle == '-' and one or ledger.idle .. ';' .. one
end

-- In how many milliseconds a webhook that has nothing to send is to be looked at again, because it dozes; nothing
-- when it rests from now on.
function reports.doze(name, batch_ms, stamp)
  for one in string.gmatch(ledger.idle, '[^;]+') do
    local reader, since = match(one, '^([^,]+),%d+,~(%d+)$')
    if reader == name then
      local left = since + DOZE_MS - clock.now
      if left > DOZE_MS / 10 and left <= DOZE_MS then return left end
      return reports.rest(name, batch_ms, stamp)
    end
  end
  reports.rest(name, batch_ms, '~' .. clock.text)
  return DOZE_MS
end

-- True when there are as many readers as there may be; webhooks of all feeds do not count.
function reports.is_full(readers_at_most)
  if call('HLEN', KEYS.readers) < readers_at_most then return false end
  local own = 0
  for _, name in ipairs(call('HKEYS', KEYS.readers)) do
    if sub(name, 1, 2) ~= '*:' then own = own + 1 end
  end
  return own >= readers_at_most
end

return reports
