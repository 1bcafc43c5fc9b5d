-- entry: what became of one entry at one reader. Writes nothing.
--
-- KEYS ledger reports readers pending leases tries again dead deaths
-- ARGV now reader number
--     number: 16 digits: of an entry that the ledger has, or had
-- USES clock stored reports reader
-- DATA reads
-- RETURNS nothing when it is none of this reader's; else "dead", how often it was handed out or sent, and why it was given up;
--   "pending" and how often a group was handed it; "waiting", which of those that are sent again it is (0: it is none of them),
--   and the progress of a webhook; "lost" when it was cut before the reader was handed it; or "acknowledged"
-- REFUSES nothing

local call, match, ledger = redis.call, string.match, reports.ledger
local member, number = ARGV.number, tonumber(ARGV.number)
local it = reader.find(ARGV.reader)
if not it then return {} end
local began = number
if string.sub(it.name, 1, 2) == '*:' then began = stored.entry_time(reports.entry_at(number)) or 0 end
if began < it.since then return {} end

local dead = call('HGET', KEYS.dead, member)
if dead then return { 'dead', match(dead, '^%d+ (%d+) ([^\n]*)') } end
if call('ZSCORE', KEYS.leases, member) then return { 'pending', call('HGET', KEYS.tries, member) or '1' } end
local place = reader.place_of_resent(member)
if place > 0 then
  return { 'waiting', reports.int(place), it.progress }
elseif number < ledger.base then
  local from, to = match(it.untold, '^(%d+) (%d+) ')
  return { from and number >= from + 0 and number <= to + 0 and 'lost' or 'acknowledged' }
elseif number < it.handed then
  return { 'acknowledged' }
end
return { 'waiting', '0', it.progress }
