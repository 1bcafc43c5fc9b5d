-- take: hands entries to a claimer of a group; makes the group when there is none.
--
-- KEYS ledger reports readers pending leases tries again dead deaths
-- ARGV now reader entries_at_most lease from ledger_max attempts dead_letters readers_at_most listed
--     lease: how long they are the claimer's, milliseconds
--     from: where a new group begins, "now", else with the oldest entry, or
--     ledger_max: with this many entries at most
--     attempts: how often an entry is handed out
--     dead_letters: how many are kept whose entries the ledger has no more
--     readers_at_most: but for webhooks of all feeds
--     listed: "listed" when the group is among those of all feeds, or ""
-- USES clock stored reports reader
-- DATA writes, always
-- RETURNS "ok", in how many milliseconds the first lease is over or "", how many dead letters made room, then per entry: its
--   number, how often it was handed out with this time, the entry
-- REFUSES with "full" when the group would be one reader too many, "new" when it is to be listed first

local call, int, ledger, behind, now = redis.call, reports.int, reports.ledger, reports.behind, clock.now
-- How many entries whose lease is over are looked at in one call.
local LOOK = 1000
-- The longest lease that may be asked for, in milliseconds: as the domain's Pull bounds it.
local LONGEST = 600000

reader.check_types()
local it, most, attempts_most = reader.find(ARGV.reader), tonumber(ARGV.entries_at_most), tonumber(ARGV.attempts)
if it then reader.let_go(it) end
local over = call('ZRANGEBYSCORE', KEYS.leases, '-inf', int(now), 'LIMIT', '0', int(LOOK))
-- One that lasts longer than any may was given while the clock was ahead.
local last = tonumber(call('ZRANGE', KEYS.leases, '-1', '-1', 'WITHSCORES')[2])
if last and last > now + LONGEST and #over < LOOK then
  local ahead = call('ZRANGEBYSCORE', KEYS.leases, '(' .. int(now + LONGEST), '+inf', 'LIMIT', '0', int(LOOK - #over))
  for _, member in ipairs(ahead) do over[#over + 1] = member end
end
if not it then
  if reports.is_full(tonumber(ARGV.readers_at_most)) then return { 'full' } end
  if ARGV.listed == '' then return { 'new' } end
  local from = behind
  if ARGV.from ~= 'now' then from = math.max(ledger.base, behind - tonumber(ARGV.ledger_max)) end
  it = reports.new_reader(ARGV.reader, from)
  ledger.readers = ledger.readers + 1
  reports.keep()
end
-- What there was is counted with the next entry; nothing can be handed out before.
if ledger.vanished then return { 'ok', '', '0' } end

-- Texts of entries by number, read in runs: what expires together mostly was handed out together.
local texts = {}
local function read_run(from, to)
  from = math.max(from, ledger.base)
  if to < from then return end
  for n, text in ipairs(call('LRANGE', KEYS.ledger, int(from - ledger.base), int(to - ledger.base))) do
    texts[from + n - 1] = text
  end
end

local answer, leases, pending, tries, gone = { 'ok', '', '0' }, {}, {}, {}, {}
local til, taken = int(now + tonumber(ARGV.lease)), 0
local function hand(member, number, attempt, text)
  leases[#leases + 1] = til
  leases[#leases + 1] = member
  answer[#answer + 1] = member
  answer[#answer + 1] = int(attempt)
  answer[#answer + 1] = text
  taken = taken + 1
end

-- Those whose lease has ended, by number.
table.sort(over)
local from, last = false, false
for n = 1, math.min(#over, most) do
  local number = tonumber(over[n])
  if last and number ~= last + 1 then
    read_run(from, last)
    from = number
  end
  from, last = from or number, number
end
if from then read_run(from, last) end
for _, member in ipairs(over) do
  if taken >= most then break end
  local number, tried = tonumber(member), tonumber(call('HGET', KEYS.tries, member) or '1')
  local text = texts[number] or reader.entry_of(member)
  if text and tried < attempts_most then
    tries[#tries + 1] = member
    tries[#tries + 1] = int(tried + 1)
    hand(member, number, tried + 1, text)
  else
    gone[#gone + 1] = member
    reader.end_resending(member)
    if not text then
      it.lost = it.lost + 1
    else
      local reason = 'handed out ' .. int(tried) .. ' times and never acknowledged'
      reader.bury(it, number, text, tried, reason, tonumber(ARGV.dead_letters))
    end
  end
end

-- Then those that nobody was given yet.
if taken < most and it.handed < behind then
  local first = it.handed - ledger.base
  local more = call('LRANGE', KEYS.ledger, int(first), int(first + most - taken - 1))
  for n, text in ipairs(more) do
    local number = it.handed + n - 1
    local member = reports.padded(number)
    pending[#pending + 1] = member
    pending[#pending + 1] = member
    hand(member, number, 1, text)
  end
  it.handed = it.handed + #more
end

reader.call_in_parts('ZREM', KEYS.pending, gone)
reader.call_in_parts('ZREM', KEYS.leases, gone)
reader.call_in_parts('HDEL', KEYS.tries, gone)
reader.call_in_parts('ZADD', KEYS.pending, pending)
reader.call_in_parts('ZADD', KEYS.leases, leases)
reader.call_in_parts('HSET', KEYS.tries, tries)
reader.keep_group(it)
local first = tonumber(call('ZRANGE', KEYS.leases, '0', '0', 'WITHSCORES')[2])
if first then answer[2] = int(math.max(first - now, 0)) end
answer[3] = int(reader.lost_letters)
return answer
