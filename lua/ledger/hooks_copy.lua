-- hooks_copy: keeps a copy of the webhooks of all feeds on another shard, for nodes that start while theirs is away.
--
-- KEYS all version
--     all: a HASH: name -> webhook, as in ledger/hooks_swap
--     version: a STRING, as in ledger/hooks_swap
-- ARGV version, per webhook: name webhook
--     version: of the set
--     webhook: its version, a blank, and it as JSON
-- DATA writes, always
-- RETURNS 1
-- REFUSES with 0 when what is there is of a newer set; of the same set the newer text of each webhook stays

local call, match = redis.call, string.match
local version, known = tonumber(ARGV.version), tonumber(call('GET', KEYS.version) or '0')
if version < known then return 0 end
local texts = {}
for n = 1, ITEM_COUNT do
  local text, was = ARGV.webhook[n], call('HGET', KEYS.all, ARGV.name[n])
  if version == known and was and tonumber(match(was, '^%d+') or '0') > tonumber(match(text, '^%d+') or '0') then
    text = was
  end
  texts[#texts + 1] = ARGV.name[n]
  texts[#texts + 1] = text
end
call('UNLINK', KEYS.all)
if #texts > 0 then call('HSET', KEYS.all, unpack(texts)) end
call('SET', KEYS.version, ARGV.version)
return 1
