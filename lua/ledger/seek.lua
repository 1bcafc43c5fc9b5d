-- seek: moves a group: what it is handed next is the entry with a number, or the first that is kept behind it.
--
-- KEYS ledger reports readers pending leases tries again dead deaths
-- ARGV now reader live_channel to
--     live_channel: of the feed
--     to: "start", "now", a number, or "@" and a time: the first entry that happened then or later
-- USES clock stored reports reader
-- DATA writes
-- RETURNS the number, or "" when there is no such group
-- REFUSES nothing

local int, ledger, behind = reports.int, reports.ledger, reports.behind
reader.check_types()
local it = reader.find(ARGV.reader)
if not it then return '' end

local to, number = ARGV.to, nil
if to == 'start' then
  number = ledger.base
elseif to == 'now' then
  number = behind
elseif string.sub(to, 1, 1) == '@' then
  number = reports.first_since(tonumber(string.sub(to, 2)), ledger.base)
else
  number = math.min(math.max(tonumber(to), ledger.base), behind)
end
redis.call('UNLINK', KEYS.pending, KEYS.leases, KEYS.tries, KEYS.again)
it.handed, it.floor, it.untold = number, number, ''
it.since = math.min(it.since, number)
reports.keep_reader(it)
redis.call('SPUBLISH', ARGV.live_channel, '{"news":"live","epoch":"0"}')
return int(number)
