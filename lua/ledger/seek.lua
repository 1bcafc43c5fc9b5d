-- seek: moves a group: what it is handed next is the entry with a number, or the first that is kept behind it.
--
-- KEYS ledger reports readers pending leases tries again dead deaths
-- ARGV now reader live_channel to
--     live_channel: of the feed
--     to: "start", "now", a number, or "@" and a time: the first entry that happened then or later
-- USES clock
-- DATA writes
-- RETURNS the number, or "" when there is no such group
-- REFUSES nothing

meet_types()
local reader = reader_of(ARGV.reader)
if not reader then return '' end

local to, number = ARGV.to, nil
if to == 'start' then
  number = ledger.base
elseif to == 'now' then
  number = behind
elseif sub(to, 1, 1) == '@' then
  local since = tonumber(sub(to, 2))
  number = bisect(ledger.base, behind, function(number) return (entry_time(entry_at(number)) or 0) < since end)
else
  number = math.min(math.max(tonumber(to), ledger.base), behind)
end
call('DEL', PENDING, LEASES, TRIES, AGAIN)
reader.handed, reader.floor, reader.untold = number, number, ''
reader.since = math.min(reader.since, number)
keep_reader(reader)
call('SPUBLISH', ARGV.live_channel, '{"news":"live","epoch":"0"}')
return int(number)
