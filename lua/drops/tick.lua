-- tick: does everything that is due of a drop, and reads it.
--
-- KEYS list rows hist meta policy due drops ledger reports readers count tally parts left told shown unpaid claims
--   holds units
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel hooks_version
--   registered ledger_bounds looked_at drop reminder
-- DATA writes, always
-- RETURNS the header, then "m" (more is due: call again) or "", then when the due queue has something next or "",
--   then the drop as it stands, or nothing when there is none
-- REFUSES nothing

-- Holds that were made at a time which is still to come, because the clock was ahead: each lasts for as long as it was to last,
-- from now on. Only those can be told that end later than any of today's would.
local function rewind()
  if not stock then return end
  if stock.announced_at > now then stock.announced_at, stock.stale = now, true end
  local last = call('ZRANGE', HOLDS, '+inf', '(' .. int(now + stock.ttl), 'BYSCORE', 'REV', 'LIMIT', '0', int(SWEEP))
  for _, member in ipairs(last) do
    local count, user, claim = match(member, '^h (%d+) (%S+) (%S+)$')
    local print, expires, made, rest = match(claim and claim_of(claim) or '', '^(%x+ %d+ %S+ )(%d+) (%d+)( .*)$')
    if made and tonumber(made) > now then
      local ends = now + expires - made
      ended[#ended + 1] = member
      held_now[#held_now + 1] = int(ends)
      held_now[#held_now + 1] = member
      paid[#paid + 1] = unpaid_member(user, expires, count, claim)
      unpaid_now[#unpaid_now + 1] = '0'
      unpaid_now[#unpaid_now + 1] = unpaid_member(user, ends, count, claim)
      put_claim(claim, print .. int(ends) .. ' ' .. time .. rest)
      heed(ends)
    end
  end
  more = more or #held_now == 2 * SWEEP
end

sweep()
rewind()
local not_yet = finish()
if not_yet then return not_yet end
local first = tonumber(call('ZRANGE', DUE, '0', '0', 'WITHSCORES')[2])
local answer = { header(), more and 'm' or '', first and int(first) or '' }
if stock then answer[4] = view() end
return answer
