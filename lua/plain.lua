-- plain: how publish_plain and publish_plain_counted begin: what they read, and refuse. Rust puts this text in front of
-- both, and plain_write behind them. What is read and written is described in feed_common, feed_gifts, ledger and
-- feed_count.
-- Redis' Lua hashes every byte of every text that is made, 10 to 15 instructions each, and an argument costs a thousand:
-- so texts are put together once, those that nobody needs are not, and numbers that seldom change come in one text.
--
-- KEYS 8:
--   1 rows
--   2 hist
--   3 ledger
--   4 list
--   5 meta
--   6 policy
--   7 reports
--   8 blocks
-- ARGV 5:
--   1 tag
--   2 known: "EPOCH SEQ TAG ", or ""
--   3 live channel
--   4 known policy: what the caller takes the policy's key to hold, "" for nothing
--   5 rules: now in milliseconds, or 0 for the store's clock; and what follows from the policy and the server's settings:
--     capacity, history (not 0), idempotency window, dedup window (0 where no lock is taken), hooks version, ledger max
--     (entries that are kept though nobody reads), and this life of the server, with which epochs end
-- RETURNS see publish_plain
-- REFUSES with "": nothing was done, feed_publish is to be called; and with "", "policy", and what the policy's key holds

local KEYS, ARGV, format, match = KEYS, ARGV, string.format, string.match
local call = redis.call
local now, CAPACITY, HISTORY, REMEMBERED, LOCKED, HOOKS, LEDGER_MAX, LIFE =
  match(ARGV[5], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%w+)$')
now, HISTORY, REMEMBERED, LOCKED = now + 0, HISTORY + 0, REMEMBERED + 0, LOCKED + 0

-- A key of another type reads as missing. What is behind blocks is in front of a gift's id and lock.
local strings = call('MGET', unpack(KEYS, 4))
if (strings[3] or '') ~= ARGV[4] then return { '', 'policy', strings[3] or '' } end
local list = strings[1]
local epoch, before, tag, covered, count, born, capacity =
  match(strings[2] or '', '^(%S+) (%d+) (%d+) (%d+) (%d+) %- (%S+) 0 (%d+)$')
local limit, hooks, readers = match(strings[4] or '', '^(%d+) (%d+) %- (%d+) ')
if not epoch or not limit or not list or strings[5] or hooks ~= HOOKS or capacity ~= CAPACITY then
  return { '' }
end
local seq, known = before + 0, ARGV[2]
covered, count, limit = covered + 0, count + 0, limit + 0
if string.sub(epoch, -5) ~= LIFE or strayed(known, strings[2], epoch, seq, covered) then return { '' } end

if now == 0 then
  local clock = call('TIME')
  now = clock[2] / 1000
  now = clock[1] * 1000 + now - now % 1
end
-- Times end with the year 9999, the domain's Millis::MAX.
if now + math.max(REMEMBERED, LOCKED) > 253402300799999 then return { '' } end
local time = format('%d', now)
-- Of a feed that counts: what goes into tally, what left is to hold, until when gifts are remembered, the span.
local elements, left, kept_til, span
