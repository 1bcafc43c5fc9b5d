-- refund: remembers that a gift is refunded, and of those that are as many as may be.
--
-- KEYS refunds
--     refunds: a ZSET: the gift's id by when it was refunded
-- ARGV gift when refunds_at_most
--     gift: its id
--     when: milliseconds
-- DATA writes
-- RETURNS 1
-- REFUSES nothing

redis.call('ZADD', KEYS.refunds, ARGV.when, ARGV.gift)
redis.call('ZREMRANGEBYRANK', KEYS.refunds, 0, -1 - tonumber(ARGV.refunds_at_most))
return 1
