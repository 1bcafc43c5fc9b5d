-- The least that taking a gift must write, with no rule at all: its id, the lock of its user and kind, the next number, the
-- capped list, the history, the ledger, and what watchers hear. What the real scripts cost is given in multiples of this.
-- KEYS list seq id lock hist ledger   ARGV gift channel fingerprint
if redis.call('SET', KEYS[3], ARGV[3], 'PX', 86400000, 'NX') == false then return 'duplicate' end
local seq = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[4], seq, 'PX', 5000, 'NX')
redis.call('LPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], 0, 9)
redis.call('RPUSH', KEYS[5], ARGV[1])
if seq % 32 == 0 then redis.call('LTRIM', KEYS[5], -1024, -1) end
redis.call('RPUSH', KEYS[6], ARGV[1])
if seq % 256 == 0 then redis.call('LTRIM', KEYS[6], -10000, -1) end
redis.call('PUBLISH', ARGV[2], ARGV[1])
return seq
