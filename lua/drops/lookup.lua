-- lookup: what became of a claim. Writes nothing.
--
-- KEYS list hist meta policy claims holds retracted
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel claim
--     claim: its id
-- USES clock policies list feed
-- LATER doubt
-- DATA reads
-- RETURNS where the feed stands, or "" when the feed's state is doubtful, then nothing when the claim is not known; else whether it is
--   held, sold, expired, cancelled or retracted, and what `claims` has of it
-- REFUSES nothing

if feed.refusal then return feed.refusal end
local call = redis.call
local claim = call('HGET', KEYS.claims, ARGV.claim)

local function status(it)
  local sale = it.sale
  if not sale then
    local member = 'h ' .. feed.int(it.count) .. ' ' .. it.user_digest .. ' ' .. ARGV.claim
    local is_held = call('ZSCORE', KEYS.holds, member) and feed.now < it.expires_at
    return it.cancelled and 'cancelled' or is_held and 'held' or 'expired'
  end
  local known_until = tonumber(call('ZSCORE', KEYS.retracted, sale.row) or nil)
  return (sale.retracted or known_until and feed.steady < known_until) and 'retracted' or 'sold'
end

local answer = { (feed.is_lost or feed.is_strayed) and '' or feed.position() }
if claim then answer[2], answer[3] = status(cjson.decode(claim)), claim end
return answer
