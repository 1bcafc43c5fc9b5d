-- reader: what one reader of a ledger has of its own: entries that are handed out, or sent again, and dead letters. See stored for
-- how that is kept.

local call, match, int, padded, ledger = redis.call, string.match, reports.int, reports.padded, reports.ledger
-- Dead letters that make room in one step, at most, for each that comes.
local ROOM = 16
-- Pending entries that were cut from the ledger and are taken out in one step, at most.
local GONE_MAX = 1000
-- lost_letters: how many dead letters were lost by this call.
local reader = { lost_letters = 0 }

-- Calls a command with all of these arguments, a thousand at a time: Redis' Lua cannot unpack many more.
function reader.call_in_parts(command, key, all)
  for from = 1, #all, 1000 do call(command, key, unpack(all, from, math.min(from + 999, #all))) end
end

-- Every read that a script does meets every key's type here, before anything is written.
function reader.check_types()
  call('HLEN', KEYS.readers)
  call('ZCARD', KEYS.pending)
  call('ZCARD', KEYS.leases)
  call('HLEN', KEYS.tries)
  call('ZCARD', KEYS.again)
  call('HLEN', KEYS.dead)
  call('ZCARD', KEYS.deaths)
end

-- A reader, brought up to what the ledger still has; nil when it does not read here. gone: what it had pending of
-- entries that were cut. Where these are very many the next calls go on.
function reader.find(name)
  local it = reports.find(name)
  if not it or it.floor >= ledger.base then return it end
  it.gone = call('ZRANGEBYSCORE', KEYS.pending, '-inf', '(' .. int(ledger.base), 'LIMIT', '0', int(GONE_MAX))
  local first = math.max(it.handed, ledger.start)
  it.lost = it.lost + #it.gone + math.max(0, ledger.base - first)
  if first < ledger.base then it.untold = stored.lost_too(it.untold, first, ledger.base - 1) end
  it.handed = math.max(it.handed, ledger.base)
  local floor = it.floor
  it.floor = it.handed
  local oldest = call('ZRANGEBYSCORE', KEYS.pending, int(ledger.base), '+inf', 'LIMIT', '0', '1')[1]
  if oldest then it.floor = math.min(it.floor, tonumber(oldest)) end
  if #it.gone == GONE_MAX then it.floor = floor end
  return it
end

-- The entry with this number as it is sent again, if it is; of several, the first.
local function resent(member)
  return call('ZRANGEBYLEX', KEYS.again, '[' .. member .. ' ', '(' .. member .. '!', 'LIMIT', '0', '1')[1]
end

-- The entries that are sent again, the oldest first and at most `most`: numbers and texts in turn.
function reader.all_resent(most)
  local all = {}
  for _, it in ipairs(call('ZRANGE', KEYS.again, '0', int(most - 1))) do
    all[#all + 1], all[#all + 2] = string.sub(it, 1, 16), string.sub(it, 18)
  end
  return all
end

-- Which of those that are sent again this number is; 0: it is none of them.
function reader.place_of_resent(member)
  return resent(member) and call('ZLEXCOUNT', KEYS.again, '-', '(' .. member .. '!') or 0
end

function reader.send_again(member, text)
  call('ZADD', KEYS.again, '0', member .. ' ' .. text)
end

function reader.end_resending(member)
  local it = resent(member)
  if it then call('ZREM', KEYS.again, it) end
end

-- Takes out what is gone, and announces what the reader never was handed: an entry of its own, which comes before all others. Its
-- number is the last of these. Before anything else is written.
function reader.let_go(it)
  reader.call_in_parts('ZREM', KEYS.pending, it.gone)
  reader.call_in_parts('ZREM', KEYS.leases, it.gone)
  reader.call_in_parts('HDEL', KEYS.tries, it.gone)
  if it.untold == '' or match(it.untold, ' 0$') then return false end
  local from, to, count = match(it.untold, '^(%d+) (%d+) (%d+)$')
  local member = padded(tonumber(to))
  reader.send_again(member, '{"at":' .. clock.text .. ',"seq":0,"type":"lost","unseen":true,"lost":{"from":"' .. from
    .. '","to":"' .. to .. '","count":' .. count .. '}}')
  if string.sub(it.name, 1, 2) == 'g:' then
    call('ZADD', KEYS.leases, '0', member)
    call('HSET', KEYS.tries, member, '0')
  end
  it.untold = match(it.untold, '^%d+ %d+') .. ' 0'
  return true
end

-- Keeps a group; behind what else is written of it.
function reader.keep_group(it)
  local first = call('ZRANGE', KEYS.pending, '0', '0')[1]
  it.floor = math.min(tonumber(first or it.handed) or it.handed, it.handed)
  reports.keep_reader(it)
end

-- The text of an entry that the reader is sent again, or that the ledger has.
function reader.entry_of(member)
  local it = resent(member)
  return it and string.sub(it, 18) or reports.entry_at(tonumber(member))
end

-- Makes an entry a dead letter of this reader. Letters are kept for as long as the ledger has their entries, and of the others
-- `most`. The oldest make room: they count as lost, and the reader gets an entry that says so.
function reader.bury(it, number, text, attempts, reason, most)
  local member = padded(number)
  call('HSET', KEYS.dead, member, clock.text .. ' ' .. int(attempts) .. ' ' .. reason .. '\n' .. text)
  local last = tonumber(call('ZRANGE', KEYS.deaths, '-1', '-1', 'WITHSCORES')[2] or '0')
  call('ZADD', KEYS.deaths, int(math.max(clock.now * 1000, last + 1)), member)
  local over = math.min(call('ZCARD', KEYS.deaths) - most, ROOM)
  if over <= 0 then return end
  for _, oldest in ipairs(call('ZRANGE', KEYS.deaths, '0', int(over - 1))) do
    local its_number = tonumber(oldest)
    if its_number < ledger.base then
      call('HDEL', KEYS.dead, oldest)
      call('ZREM', KEYS.deaths, oldest)
      it.lost, reader.lost_letters = it.lost + 1, reader.lost_letters + 1
      it.untold = stored.lost_too(it.untold, its_number, its_number)
    end
  end
end

-- Forgets what a reader has of its own.
function reader.clear()
  call('UNLINK', KEYS.pending, KEYS.leases, KEYS.tries, KEYS.again, KEYS.dead, KEYS.deaths)
end

-- Forgets a reader with all it has; 1 if it read here, else 0.
function reader.forget(name)
  local was = call('HDEL', KEYS.readers, name)
  reader.clear()
  if was == 1 then
    ledger.readers = ledger.readers - 1
    reports.wake(name)
    reports.keep()
  end
  return was
end

return reader
