-- refund: remembers how much of a gift is refunded, also before it comes, and of those that are as many as may be.
--
-- KEYS refunds refunded
--     refunds: a ZSET: the gift's id by when it was refunded
--     refunded: a ZSET: the id of one that is refunded in part by how much, in minor units
-- ARGV gift amount when refunds_at_most
--     gift: its id
--     amount: all that is refunded so far, in minor units; "" when the whole gift is
--     when: milliseconds
-- DATA writes
-- RETURNS 1
-- REFUSES nothing

local call, gift, amount = redis.call, ARGV.gift, ARGV.amount
local is_known, part = call('ZSCORE', KEYS.refunds, gift), call('ZSCORE', KEYS.refunded, gift)
call('ZADD', KEYS.refunds, ARGV.when, gift)
if amount == '' then
  call('ZREM', KEYS.refunded, gift)
elseif not is_known or part and tonumber(part) < tonumber(amount) then
  call('ZADD', KEYS.refunded, amount, gift)
end
local forgotten = call('ZRANGE', KEYS.refunds, 0, -1 - tonumber(ARGV.refunds_at_most))
if #forgotten > 0 then
  call('ZREM', KEYS.refunds, unpack(forgotten))
  call('ZREM', KEYS.refunded, unpack(forgotten))
end
return 1
