-- replay: sends dead letters again: a group's next claimers get them, a webhook sends them first.
--
-- KEYS ledger reports readers pending leases tries again dead deaths
-- ARGV now reader live_channel which, per dead: number
--     live_channel: of the feed
--     which: "all", of which a thousand are sent at once, or "only" those
--     number: 16 digits
-- USES clock
-- DATA writes
-- RETURNS how many there were
-- REFUSES nothing

meet_types()
local reader = reader_of(ARGV.reader)
if not reader then return '0' end
let_go(reader)
local members = {}
for n = 1, ITEM_COUNT do members[n] = ARGV.number[n] end
if ARGV.which == 'all' then members = call('ZRANGE', DEATHS, '0', '999') end
local group, moved = sub(ARGV.reader, 1, 2) == 'g:', 0
for _, member in ipairs(members) do
  local text = match(call('HGET', DEAD, member) or '', '^[^\n]*\n(.+)$')
  if text then
    call('HSET', AGAIN, member, text)
    call('HDEL', DEAD, member)
    call('ZREM', DEATHS, member)
    if group then
      call('ZADD', LEASES, '0', member)
      call('HSET', TRIES, member, '0')
    end
    moved = moved + 1
  end
end
keep_reader(reader)
if group and moved > 0 then call('SPUBLISH', ARGV.live_channel, '{"news":"live","epoch":"0"}') end
return int(moved)
