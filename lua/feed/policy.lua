-- policy: changes what is set for a feed. Another capacity trims at once and takes a seq (a reset),
-- unless nobody wrote to the feed yet.
--
-- KEYS list rows hist meta policy count
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel saw new counts
--     saw: what `policy` held when the caller made the new one, "" for nothing
--     new: what it is to hold; "" when nothing is set
--     counts: "" when totals, time_zone and points are as they were; else "1" when it sets totals, or "0"
-- DATA writes
-- RETURNS the header
-- REFUSES with "", "again": it holds something else than the caller saw

if ARGV.saw ~= (overrides or '') then return { '', 'again' } end
settle()
local new = ARGV.new ~= '' and ARGV.new or nil
policy = policies.with(new)
resize()
if covered < seq - policy.history then covered = seq - policy.history end
commit(ARGV.new)
if new then call('SET', KEYS.policy, new) else call('DEL', KEYS.policy) end
-- Whatever counts is settled anew before the next gift; whoever changed the policy does that right away.
if ARGV.counts == '1' or ARGV.counts == '0' and strings[4] then call('SET', KEYS.count, '?') end
return { header() }
