-- define: defines a drop or changes it.
--
-- KEYS list rows hist meta policy due drops ledger reports readers count tally parts left told shown unpaid claims
--   holds units
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at drop reminder spec gift most
--     spec: SPEC, as in drops/stock
--     gift: JSON
--     most: the most drops of a feed
-- DATA writes, grows
-- RETURNS the header, then "n" (new), "c" (changed), "b" (the total is below what is taken), "f" (the feed
--   has as many as it may) or "m" (call again), and the drop as watchers see it; after b and f nothing
-- REFUSES b and f

sweep()
local answer = { '', 'm' }
if not more then
  local total = tonumber((match(ARGV.spec, SPEC)))
  if not stock and call('HLEN', DROPS) >= tonumber(ARGV.most) then
    answer[2] = 'f'
  elseif not stock then
    stock = { held = 0, sold = 0, announced_at = now, stale = true }
    set_spec(stock, ARGV.spec, ARGV.gift)
    announce()
    answer[2], answer[3] = 'n', view()
  elseif total < stock.held + stock.sold then
    answer[2], answer[3] = 'b', int(stock.held + stock.sold)
  else
    if stock.spec ~= ARGV.spec or stock.gift ~= ARGV.gift then stock.stale = true end
    set_spec(stock, ARGV.spec, ARGV.gift)
    answer[2], answer[3] = 'c', view()
  end
end
local not_yet = finish()
if not_yet then return not_yet end
answer[1] = header()
return answer
