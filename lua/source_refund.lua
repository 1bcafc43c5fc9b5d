-- source_refund: remembers that a gift is refunded, and of those that are as many as may be.
--
-- KEYS 1:
--   1 refunds: a ZSET: the gift's id by when it was refunded
-- ARGV 3:
--   1 gift: its id
--   2 when, milliseconds
--   3 refunds at most
-- DATA writes
-- RETURNS 1
-- REFUSES nothing

redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[3]))
return 1
