-- signing_key: the key with which the installation signs what it sends to webhooks.
--
-- KEYS signing_key
--     signing_key: a STRING
-- ARGV proposed
--     proposed: a new key, which is kept where there is none
-- DATA writes
-- RETURNS the key
-- REFUSES nothing

local known = redis.call('GET', KEYS.signing_key)
if known then return known end
redis.call('SET', KEYS.signing_key, ARGV.proposed)
return ARGV.proposed
