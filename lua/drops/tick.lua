-- tick: does everything that is due of a drop, and reads it.
--
-- KEYS list hist meta policy due drops ledger reports readers totals sums people unranked parts announced shown unpaid claims
--   holds units
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at drop reminder
-- USES clock policies list feed ledger stock
-- LATER doubt settle row rows receipt room stored counting runs sums person notices
-- DATA writes, always
-- RETURNS where the feed stands, then "m" (more is due: call again) or "", then when the due queue has something next or "",
--   then the drop as it stands, or nothing when there is none
-- REFUSES as drops/stock and ledger/writer do

if feed.refusal then return feed.refusal end
local now, int = feed.now, feed.int
-- A hold that is this far ahead was made beside this call, which another node may have sent a little earlier.
local TOLERATED_MS = 1000

-- Holds that were made at a time which is still to come, because the clock was ahead: each lasts for as long as it was to last, from
-- now on. They are those that end later than any of today's would.
local function rewind()
  if not stock.is_there then return end
  if stock.announced_at > now then stock.announced_at, stock.stale = now, true end
  local later_than = '(' .. int(now + TOLERATED_MS + stock.ttl)
  local last = redis.call('ZRANGE', KEYS.holds, '+inf', later_than, 'BYSCORE', 'REV', 'LIMIT', '0', int(stock.SWEEP))
  for _, member in ipairs(last) do
    local count, user, claim = string.match(member, '^h (%d+) (%S+) (%S+)$')
    local text = claim and stock.claim_of(claim)
    local it = text and stock.read_claim(text)
    if it and it.expires_at and it.made_at > now + TOLERATED_MS then
      stock.ended[#stock.ended + 1] = member
      stock.paid[#stock.paid + 1] = stock.unpaid_member(user, it.expires_at, count, claim)
      it.expires_at, it.made_at = now + it.expires_at - it.made_at, now
      stock.add_hold(it.expires_at, count, user, claim)
      stock.put_claim(claim, it)
    end
  end
  stock.has_more = stock.has_more or #stock.new_holds == 2 * stock.SWEEP
end

stock.sweep()
rewind()
local refusal = stock.finish()
if refusal then return refusal end
local first = tonumber(redis.call('ZRANGE', KEYS.due, '0', '0', 'WITHSCORES')[2])
local answer = { feed.position() .. ledger.news, stock.has_more and 'm' or '', first and int(first) or '' }
if stock.is_there then answer[4] = stock.view() end
return answer
