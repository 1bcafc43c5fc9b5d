-- entry: what became of one entry at one reader. Writes nothing.
--
-- KEYS ledger reports readers pending leases tries again dead deaths
-- ARGV now reader number
--     number: 16 digits: of an entry that the ledger has, or had
-- USES clock
-- DATA reads
-- RETURNS nothing when it is none of this reader's; else "dead", how often it was handed out or sent, and why it was given up;
--   "pending" and how often a group was handed it; "waiting", which of those that are sent again it is (0: it is none of them),
--   and the progress of a webhook; "lost" when it was cut before the reader was handed it; or "acknowledged"
-- REFUSES nothing

local member, number = ARGV.number, tonumber(ARGV.number)
local reader = reader_of(ARGV.reader)
if not reader then return {} end
local began = number
if sub(reader.name, 1, 2) == '*:' then began = entry_time(entry_at(number)) or 0 end
if began < reader.since then return {} end

local dead = call('HGET', DEAD, member)
if dead then return { 'dead', match(dead, '^%d+ (%d+) ([^\n]*)') } end
if call('ZSCORE', LEASES, member) then return { 'pending', call('HGET', TRIES, member) or '1' } end
local place = 0
if call('HEXISTS', AGAIN, member) == 1 then
  for _, other in ipairs(call('HKEYS', AGAIN)) do
    if other <= member then place = place + 1 end
  end
elseif number < ledger.base then
  local from, to = match(reader.untold, '^(%d+) (%d+) ')
  return { from and number >= from + 0 and number <= to + 0 and 'lost' or 'acknowledged' }
elseif number < reader.handed then
  return { 'acknowledged' }
end
return { 'waiting', int(place), reader.progress }
