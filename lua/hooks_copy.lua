-- hooks_copy: keeps a copy of the webhooks of all feeds on another shard, for nodes that start while theirs is away.
--
-- KEYS 2:
--   1 all: a HASH: name -> webhook, as in hooks_swap
--   2 version: a STRING, as in hooks_swap
-- ARGV 1 + 2 per webhook:
--   1 version: of the set
--   2 name
--   3 webhook: its version, a blank, and it as JSON
-- DATA writes, always
-- RETURNS 1
-- REFUSES with 0 when what is there is of a newer set; of the same set the newer text of each webhook stays

local call, match = redis.call, string.match
local version, known = tonumber(ARGV[1]), tonumber(call('GET', KEYS[2]) or '0')
if version < known then return 0 end
local texts = {}
for n = 2, #ARGV, 2 do
  local text, was = ARGV[n + 1], call('HGET', KEYS[1], ARGV[n])
  if version == known and was and tonumber(match(was, '^%d+') or '0') > tonumber(match(text, '^%d+') or '0') then
    text = was
  end
  texts[#texts + 1] = ARGV[n]
  texts[#texts + 1] = text
end
call('DEL', KEYS[1])
if #texts > 0 then call('HSET', KEYS[1], unpack(texts)) end
call('SET', KEYS[2], ARGV[1])
return 1
