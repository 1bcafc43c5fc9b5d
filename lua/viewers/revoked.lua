-- revoked: reads revocations in the order in which they were made.
--
-- KEYS revoked order ends head
--     revoked: a HASH: the viewer -> before, a space, end
--     order: a ZSET: the viewer by the number of its revocation
--     ends: a ZSET: the viewer by when no such token lives any more
--     head: a HASH: life -> what names this life of the numbers, seq -> the last number
-- ARGV life after at_most
--     life: the one in which the caller read, "" at first
--     after: the number of the last one that it has
-- DATA reads
-- RETURNS life, the number of the last one (behind the last page that of the last one ever), then for each the viewer and what revoked holds of it
-- REFUSES nothing

local call = redis.call
local life = call('HGET', KEYS.head, 'life') or ''
local after = life == ARGV.life and ARGV.after or '0'
local found = call('ZRANGEBYSCORE', KEYS.order, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV.at_most)
local reply = {life, after}
for n = 1, #found, 2 do
  local text = call('HGET', KEYS.revoked, found[n])
  if text then
    reply[#reply + 1] = found[n]
    reply[#reply + 1] = text
  end
  reply[2] = found[n + 1]
end
if #found < 2 * ARGV.at_most then reply[2] = call('HGET', KEYS.head, 'seq') or reply[2] end
return reply
