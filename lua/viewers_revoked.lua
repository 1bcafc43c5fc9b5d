-- viewers_revoked: reads revocations in the order in which they were made.
--
-- KEYS 4:
--   1 revoked: a HASH: the viewer -> before, a space, end
--   2 order: a ZSET: the viewer by the number of its revocation
--   3 ends: a ZSET: the viewer by when no such token lives any more
--   4 head: a HASH: life -> what names this life of the numbers, seq -> the last number
-- ARGV 3:
--   1 life: the one in which the caller read, "" at first
--   2 after: the number of the last one that it has
--   3 at most
-- DATA reads
-- RETURNS life, the number of the last one (behind the last page that of the last one ever), then for each the viewer and what revoked holds of it
-- REFUSES nothing

local call = redis.call
local life = call('HGET', KEYS[4], 'life') or ''
local after = life == ARGV[1] and ARGV[2] or '0'
local found = call('ZRANGEBYSCORE', KEYS[2], '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
local reply = {life, after}
for n = 1, #found, 2 do
  local text = call('HGET', KEYS[1], found[n])
  if text then
    reply[#reply + 1] = found[n]
    reply[#reply + 1] = text
  end
  reply[2] = found[n + 1]
end
if #found < 2 * ARGV[3] then reply[2] = call('HGET', KEYS[4], 'seq') or reply[2] end
return reply
