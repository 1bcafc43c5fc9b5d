-- reverse: takes a sale back, or refunds a part of what it cost (feed/reversal). A hold that is not paid is cancelled.
--
-- KEYS list hist meta policy due drops ledger reports readers totals sums people unranked parts announced shown unpaid claims
--   holds units retracted
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at drop reminder claim gift refunded reason restock
--     claim: its id
--     gift: its id as it was sent, which the ledger has
--     refunded: how much is refunded by now, in minor units; "" to take the sale back
--     reason: as JSON, or ""
--     restock: "1" when its units are to be free again, else ""
-- USES clock policies list feed ledger stock retraction reversal
-- LATER doubt settle row rows receipt room stored counting runs sums person notices
-- DATA writes, always
-- RETURNS where the feed stands, then what reversal answers; "v" for a refund of what was not sold; "u" when there is no such claim, or
--   it is forgotten; or "m" (call again)
-- REFUSES as ledger/writer and totals/counting do

if feed.refusal then return feed.refusal end
stock.sweep()

-- What is answered. Nothing is written yet.
local function reverse(id)
  local known = stock.is_there and stock.claim_of(id)
  if not known then return { 'u' } end
  local it, is_refund = stock.read_claim(known), ARGV.refunded ~= ''
  if not it.sale then
    if is_refund then return { 'v' } end
    stock.cancel_hold(id, it)
    return { '1', '0', '-' }
  end
  local gift = {
    id = ARGV.gift, reason = ARGV.reason ~= '' and ARGV.reason or nil, drop = ARGV.drop,
    who = ',"user":' .. it.user .. ',"gift":' .. stock.gift,
  }
  local answer, is_changed = reversal.apply(it.sale, gift, is_refund and tonumber(ARGV.refunded) or nil)
  local is_restocked = ARGV.restock == '1' and answer[1] == '1' and not it.restocked
  if is_restocked then stock.restock(id, it) end
  if is_changed or is_restocked then stock.put_claim(id, it) end
  return answer
end

local answer = { 'm' }
if not stock.has_more then answer = reverse(ARGV.claim) end
local refusal = stock.finish()
if refusal then return refusal end
return { feed.position() .. ledger.news, unpack(answer) }
