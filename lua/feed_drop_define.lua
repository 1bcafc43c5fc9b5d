-- feed_drop_define: defines a drop or changes it.
--
-- KEYS 20:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
--   6 due
--   7 drops
--   8 ledger
--   9 reports
--   10 readers
--   11 count
--   12 tally
--   13 parts
--   14 left
--   15 told
--   16 shown
--   17 unpaid
--   18 claims: of the drop
--   19 holds: of the drop
--   20 units: of the drop
-- ARGV 18:
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 hooks version: that of the webhooks of all feeds
--   11 registered: webhooks that rest and are in the index of jobs
--   12 ledger bounds
--   13 looked at: from then on
--   14 drop
--   15 reminder
--   16 spec: SPEC, as in feed_drops
--   17 gift, JSON
--   18 most: the most drops of a feed
-- DATA writes, grows
-- RETURNS the header, then "n" (new), "c" (changed), "b" (the total is below what is taken), "f" (the feed
--   has as many as it may) or "m" (call again), and the drop as watchers see it; after b and f nothing
-- REFUSES b and f

sweep()
local answer = { '', 'm' }
if not more then
  local total = tonumber((match(ARGV[16], SPEC)))
  if not stock and call('HLEN', DROPS) >= tonumber(ARGV[18]) then
    answer[2] = 'f'
  elseif not stock then
    stock = { held = 0, sold = 0, told = now, stale = true }
    set_spec(stock, ARGV[16], ARGV[17])
    tell()
    answer[2], answer[3] = 'n', view()
  elseif total < stock.held + stock.sold then
    answer[2], answer[3] = 'b', int(stock.held + stock.sold)
  else
    if stock.spec ~= ARGV[16] or stock.gift ~= ARGV[17] then stock.stale = true end
    set_spec(stock, ARGV[16], ARGV[17])
    answer[2], answer[3] = 'c', view()
  end
end
local not_yet = finish()
if not_yet then return not_yet end
answer[1] = header()
return answer
