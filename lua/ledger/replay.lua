-- replay: sends dead letters again: a group's next claimers get them, a webhook sends them first.
--
-- KEYS ledger reports readers pending leases tries again dead deaths
-- ARGV now reader live_channel which, per dead: number
--     live_channel: of the feed
--     which: "all", of which a thousand are sent at once, or "only" those
--     number: 16 digits
-- USES clock stored reports reader
-- DATA writes
-- RETURNS how many there were
-- REFUSES nothing

local call = redis.call
reader.check_types()
local it = reader.find(ARGV.reader)
if not it then return '0' end
reader.let_go(it)
local members = {}
for n = 1, ITEM_COUNT do members[n] = ARGV.number[n] end
if ARGV.which == 'all' then members = call('ZRANGE', KEYS.deaths, '0', '999') end
local group, moved = string.sub(ARGV.reader, 1, 2) == 'g:', 0
for _, member in ipairs(members) do
  local text = string.match(call('HGET', KEYS.dead, member) or '', '^[^\n]*\n(.+)$')
  if text then
    reader.send_again(member, text)
    call('HDEL', KEYS.dead, member)
    call('ZREM', KEYS.deaths, member)
    if group then
      call('ZADD', KEYS.leases, '0', member)
      call('HSET', KEYS.tries, member, '0')
    end
    moved = moved + 1
  end
end
reports.keep_reader(it)
if group and moved > 0 then call('SPUBLISH', ARGV.live_channel, '{"news":"live","epoch":"0"}') end
return reports.int(moved)
