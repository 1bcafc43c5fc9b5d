-- report_entry: what became of one entry at one reader. Writes nothing.
--
-- KEYS 9:
--   1 ledger
--   2 reports
--   3 readers
--   4 pending: of the reader
--   5 leases: of the reader
--   6 tries: of the reader
--   7 again: of the reader
--   8 dead: of the reader
--   9 deaths: of the reader
-- ARGV 3:
--   1 now
--   2 reader
--   3 number, 16 digits: of an entry that the ledger has
-- DATA reads
-- RETURNS nothing when it is none of this reader's; else "dead", how often it was handed out or sent, and why it was given up;
--   "pending" and how often a group was handed it; "waiting", which of those that are sent again it is (0: it is none of them),
--   and the progress of a webhook; or "acknowledged"
-- REFUSES nothing

local member, number = ARGV[3], tonumber(ARGV[3])
local reader = reader_of(ARGV[2])
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
elseif number < reader.handed then
  return { 'acknowledged' }
end
return { 'waiting', int(place), reader.progress }
