-- viewers_revoke: remembers that a viewer's tokens of before a time are refused.
--
-- KEYS 4:
--   1 revoked: a HASH: the viewer -> before, a space, end
--   2 order: a ZSET: the viewer by the number of its revocation
--   3 ends: a ZSET: the viewer by when no such token lives any more
--   4 head: a HASH: life -> what names this life of the numbers, seq -> the last number
-- ARGV 7:
--   1 now, milliseconds; "-" takes the store's clock
--   2 sub: the viewer
--   3 before, milliseconds
--   4 end, milliseconds
--   5 life: for the first one
--   6 viewers at most
--   7 wake channel
-- DATA writes, always
-- RETURNS the time that holds, which never moves back
-- REFUSES with "full" when it would be one viewer too many

local call = redis.call
local sub, before, ends = ARGV[2], ARGV[3], ARGV[4]
local known = call('HGET', KEYS[1], sub)
if known then
  local was, ended = string.match(known, '^(%S+) (%S+)$')
  if tonumber(was) >= tonumber(before) then return was end
  if tonumber(ended) > tonumber(ends) then ends = ended end
end
local now = ARGV[1]
if now == '-' then
  local t = call('TIME')
  now = string.format('%d', tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000))
end
-- Those that concern no token any more make room, several for each that comes.
for _, old in ipairs(call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 100)) do
  if old ~= sub then
    call('HDEL', KEYS[1], old)
    call('ZREM', KEYS[2], old)
    call('ZREM', KEYS[3], old)
  end
end
if not known and call('HLEN', KEYS[1]) >= tonumber(ARGV[6]) then return 'full' end
if call('HEXISTS', KEYS[4], 'life') == 0 then call('HSET', KEYS[4], 'life', ARGV[5]) end
local seq = call('HINCRBY', KEYS[4], 'seq', 1)
call('HSET', KEYS[1], sub, before .. ' ' .. ends)
call('ZADD', KEYS[2], seq, sub)
call('ZADD', KEYS[3], ends, sub)
call('SPUBLISH', ARGV[7], '0')
return before
