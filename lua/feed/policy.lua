-- policy: changes what is set for a feed. Another capacity trims at once and takes a seq (a reset),
-- unless nobody wrote to the feed yet.
--
-- KEYS list hist meta policy
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel saw new
--     saw: what `policy` held when the caller made the new one, "" for nothing
--     new: what it is to hold; "" when nothing is set
-- USES clock policies list feed
-- LATER doubt settle row rows
-- DATA writes
-- RETURNS where the feed stands
-- REFUSES with "", "again": it holds something else than the caller saw

if feed.refusal then return feed.refusal end
if ARGV.saw ~= (STRINGS.policy or '') then return { '', 'again' } end
if feed.is_unsettled then LATER.settle.apply() end
feed.set_policy(ARGV.new)
if feed.is_unsettled then LATER.settle.apply() end

feed.commit()
if ARGV.new ~= '' then redis.call('SET', KEYS.policy, ARGV.new) else redis.call('DEL', KEYS.policy) end
return { feed.position() }
