-- define: defines a drop or changes it.
--
-- KEYS list hist meta policy due drops ledger reports readers totals sums people unranked parts announced shown unpaid claims
--   holds units
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at drop reminder spec most
--     spec: as in drops/stock
--     most: the most drops of a feed
-- USES clock policies list feed ledger stock
-- LATER doubt settle row rows receipt room stored counting runs sums person notices
-- DATA writes, grows
-- RETURNS where the feed stands, then "n" (new), "c" (changed), "b" (the total is below what is taken), "f" (the feed
--   has as many as it may) or "m" (call again), and the drop as watchers see it; after b and f nothing
-- REFUSES b and f

local refusal = feed.refusal
if refusal then return refusal end
stock.sweep()
local answer = { '', 'm' }
if not stock.has_more then
  local total, taken = cjson.decode(ARGV.spec).total, stock.is_there and stock.held + stock.sold
  if not taken and redis.call('HLEN', KEYS.drops) >= tonumber(ARGV.most) then
    answer[2] = 'f'
  elseif not taken then
    stock.held, stock.sold, stock.announced_at, stock.stale = 0, 0, feed.now, true
    stock.set_spec(ARGV.spec)
    stock.announce()
    answer[2], answer[3] = 'n', stock.view()
  elseif total < taken then
    answer[2], answer[3] = 'b', feed.int(taken)
  else
    if stock.spec ~= ARGV.spec then stock.stale = true end
    stock.set_spec(ARGV.spec)
    answer[2], answer[3] = 'c', stock.view()
  end
end
refusal = stock.finish()
if refusal then return refusal end
answer[1] = feed.position() .. ledger.news
return answer
