-- feed_drop_define: defines a drop or changes it.
--
-- KEYS 12:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 due
--   7 drops
--   8 shown
--   9 unpaid
--   10 claims of the drop
--   11 holds of the drop
--   12 units of the drop
-- ARGV 15:
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 drop
--   11 reminder
--   12 looked at from then on
--   13 SPEC, as in feed_drops
--   14 gift, JSON
--   15 the most drops of a feed
-- RETURNS the header, then "n" (new), "c" (changed), "b" (the total is below what is taken), "f" (the feed
--   has as many as it may) or "m" (call again), and the drop as watchers see it; after b and f nothing
-- REFUSES b and f

sweep()
local answer = { '', 'm' }
if not more then
  local total = tonumber((match(ARGV[13], SPEC)))
  if not stock and call('HLEN', DROPS) >= tonumber(ARGV[15]) then
    answer[2] = 'f'
  elseif not stock then
    stock = { held = 0, sold = 0, told = now, stale = true }
    set_spec(stock, ARGV[13], ARGV[14])
    tell()
    answer[2], answer[3] = 'n', view()
  elseif total < stock.held + stock.sold then
    answer[2], answer[3] = 'b', int(stock.held + stock.sold)
  else
    if stock.spec ~= ARGV[13] or stock.gift ~= ARGV[14] then stock.stale = true end
    set_spec(stock, ARGV[13], ARGV[14])
    answer[2], answer[3] = 'c', view()
  end
end
local not_yet = finish()
if not_yet then return not_yet end
answer[1] = header()
return answer
