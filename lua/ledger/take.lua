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
-- USES clock
-- DATA writes, always
-- RETURNS "ok", in how many milliseconds the first lease is over or "", how many dead letters made room, then per entry: its number, the how manyth
--   time it is handed out, its lines
-- REFUSES with "full" when the group would be one reader too many, "new" when it is to be listed first

-- So many whose lease is over are looked at in one run.
local LOOK = 2000
-- The longest lease that may be asked for, in milliseconds: as the domain's Pull bounds it.
local LONGEST = 600000

meet_types()
local reader, most, attempts_most = reader_of(ARGV.reader), tonumber(ARGV.entries_at_most), tonumber(ARGV.attempts)
if reader then let_go(reader) end
local over = call('ZRANGEBYSCORE', LEASES, '-inf', int(now), 'LIMIT', '0', int(LOOK))
-- One that lasts longer than any may was given while the clock was ahead.
local last = tonumber(call('ZRANGE', LEASES, '-1', '-1', 'WITHSCORES')[2])
if last and last > now + LONGEST and #over < LOOK then
  local ahead = call('ZRANGEBYSCORE', LEASES, '(' .. int(now + LONGEST), '+inf', 'LIMIT', '0', int(LOOK - #over))
  for _, member in ipairs(ahead) do over[#over + 1] = member end
end
if not reader then
  if is_full(tonumber(ARGV.readers_at_most)) then return { 'full' } end
  if ARGV.listed == '' then return { 'new' } end
  local from = behind
  if ARGV.from ~= 'now' then from = math.max(ledger.base, behind - tonumber(ARGV.ledger_max)) end
  reader = new_reader(ARGV.reader, from)
  ledger.readers = ledger.readers + 1
  keep_reports()
end
-- What there was is counted with the next entry; nothing can be handed out before.
if ledger.vanished then return { 'ok', '', '0' } end

-- Texts of entries by number, read in runs: what expires together mostly was handed out together.
local texts = {}
local function read_run(from, to)
  from = math.max(from, ledger.base)
  if to < from then return end
  for n, text in ipairs(call('LRANGE', LEDGER, int(from - ledger.base), int(to - ledger.base))) do
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

-- Those whose lease is over, by number.
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
  local number, tried = tonumber(member), tonumber(call('HGET', TRIES, member) or '1')
  local text = call('HGET', AGAIN, member) or texts[number] or entry_at(number)
  if text and tried < attempts_most then
    tries[#tries + 1] = member
    tries[#tries + 1] = int(tried + 1)
    hand(member, number, tried + 1, text)
  else
    gone[#gone + 1] = member
    if text then
      local reason = 'handed out ' .. int(tried) .. ' times and never acknowledged'
      bury(reader, number, text, tried, reason, tonumber(ARGV.dead_letters))
    end
  end
end

-- Then those that nobody was given yet.
if taken < most and reader.handed < behind then
  local first = reader.handed - ledger.base
  local more = call('LRANGE', LEDGER, int(first), int(first + most - taken - 1))
  for n, text in ipairs(more) do
    local number = reader.handed + n - 1
    local member = padded(number)
    pending[#pending + 1] = member
    pending[#pending + 1] = member
    hand(member, number, 1, text)
  end
  reader.handed = reader.handed + #more
end

in_parts('ZREM', PENDING, gone)
in_parts('ZREM', LEASES, gone)
in_parts('HDEL', TRIES, gone)
in_parts('HDEL', AGAIN, gone)
in_parts('ZADD', PENDING, pending)
in_parts('ZADD', LEASES, leases)
in_parts('HSET', TRIES, tries)
keep_group(reader)
local first = tonumber(call('ZRANGE', LEASES, '0', '0', 'WITHSCORES')[2])
if first then answer[2] = int(math.max(first - now, 0)) end
answer[3] = int(lost_letters)
return answer
