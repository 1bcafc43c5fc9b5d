-- revoke: remembers that a viewer's tokens of before a time are refused.
--
-- KEYS revoked order ends head
--     revoked: a HASH: the viewer -> before, a space, end
--     order: a ZSET: the viewer by the number of its revocation
--     ends: a ZSET: the viewer by when no such token lives any more
--     head: a HASH: life -> what names this life of the numbers, seq -> the last number
-- ARGV now sub before ends_at life viewers_at_most wake_channel
--     sub: the viewer
--     before: milliseconds
--     ends_at: milliseconds
--     life: for the first one
-- USES clock
-- DATA writes, always
-- RETURNS the time that holds, which never moves back
-- REFUSES with "full" when it would be one viewer too many

local call = redis.call
local sub, before, ends = ARGV.sub, ARGV.before, ARGV.ends_at
-- Every key is read before anything is written.
local known, life, seq = call('HGET', KEYS.revoked, sub), unpack(call('HMGET', KEYS.head, 'life', 'seq'))
seq = (seq or 0) + 1
call('ZCARD', KEYS.order)
if known then
  local was, ended = string.match(known, '^(%S+) (%S+)$')
  if tonumber(was) >= tonumber(before) then return was end
  if tonumber(ended) > tonumber(ends) then ends = ended end
end
local now = clock.text
-- Those that concern no token any more make room, several for each that comes.
for _, old in ipairs(call('ZRANGEBYSCORE', KEYS.ends, '-inf', now, 'LIMIT', 0, 100)) do
  if old ~= sub then
    call('HDEL', KEYS.revoked, old)
    call('ZREM', KEYS.order, old)
    call('ZREM', KEYS.ends, old)
  end
end
if not known and call('HLEN', KEYS.revoked) >= tonumber(ARGV.viewers_at_most) then return 'full' end
call('HSET', KEYS.head, 'life', life or ARGV.life, 'seq', string.format('%d', seq))
call('HSET', KEYS.revoked, sub, before .. ' ' .. ends)
call('ZADD', KEYS.order, string.format('%d', seq), sub)
call('ZADD', KEYS.ends, ends, sub)
call('SPUBLISH', ARGV.wake_channel, '0')
return before
