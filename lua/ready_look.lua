-- ready_look: what a feed holds, for whoever makes the texts of gifts before ready_publish writes them. See plain_known.
--
-- KEYS 6:
--   1 list
--   2 hist
--   3 ledger
--   4 meta
--   5 policy
--   6 reports
-- ARGV 2:
--   1 known: "EPOCH SEQ TAG ", or ""
--   2 life: of the server, with which epochs end
-- RETURNS what meta, list, policy ("" for none) and reports hold, how many entries the ledger has, and the store's clock in
-- seconds and microseconds
-- REFUSES with "": the feed has not begun, something of it was lost, or it is not what the caller saw; feed_publish finds out

local strings = redis.call('MGET', KEYS[1], unpack(KEYS, 4))
local list, meta, policy, reports = strings[1], strings[2], strings[3], strings[4]
local epoch, seq, covered = string.match(meta or '', '^(%S+) (%d+) %d+ (%d+) ')
if not list or not epoch or not reports then return { '' } end
seq, covered = seq + 0, covered + 0
if string.sub(epoch, -5) ~= ARGV[2] then return { '' } end
if strayed(ARGV[1], meta, epoch, seq, covered) or redis.call('LLEN', KEYS[2]) < seq - covered then return { '' } end
local clock = redis.call('TIME')
local entries = string.format('%d', redis.call('LLEN', KEYS[3]))
return { meta, list, policy or '', reports, entries, clock[1], clock[2] }
