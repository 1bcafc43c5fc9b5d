-- ready_publish: what publish_plain does, with every text ready-made: the caller knows what the feed holds, and has reckoned what
-- it will hold (engine/redis/held.rs). Looks whether that is so, and writes. Redis' Lua hashes every byte of every text that is
-- made and interprets whatever takes one apart, so it does neither; and an argument costs a thousand instructions.
--
-- Meta says which change was the last. With it the list, covered and the history are what the caller thinks, and a list that was
-- evicted is written anew. What cannot be written anew (rows, history, ledger) shows in what is written that it is there: what
-- is appended first answers with its length, and can be taken back as long as nothing else was written. From the first id on
-- nothing fails.
--
-- KEYS 8 + 2 per gift:
--   1 rows
--   2 hist
--   3 ledger
--   4 list
--   5 meta
--   6 policy
--   7 reports
--   8 blocks
--   9 id: of the gift
--   10 lock: of its user and kind; no id is that of two gifts, and no lock where locks are taken
-- ARGV 8 + 4 per gift, those of a kind together, and behind them the ids of the rows that leave the list:
--   1 known meta: what meta holds
--   2 known reports: what reports holds; and where there is a policy, a line break and what policy holds
--   3 limit: of the ledger, as reports has it; behind it, where something is not as in most calls, with a blank before each: how
--     many read, how many entries stay, the second of the texts' time where the store's clock is to be asked, else "-", how
--     many milliseconds ids are kept, and locks, "-" where none is taken
--   4 keep: how many changes hist holds at least
--   5 list: what it will hold
--   6 meta: what it will hold
--   7 live channel
--   8 message: what is published
--   9 entry: of the ledger
--   10 change
--   11 answer: what id will hold
--   12 held: what lock will hold
-- RETURNS 1
-- REFUSES with 0: the gifts, or the feed, are not plain, and feed_publish is to be called; with 2: the feed holds something else; with
-- TIME's answer: the texts' time is not the store's. Nothing was done

local KEYS, ARGV, call, match, find, sub = KEYS, ARGV, redis.call, string.match, string.find, string.sub
-- A key of another type reads as missing.
local strings = call('MGET', unpack(KEYS, 5))
local policy, reports = strings[2], strings[3]
if strings[1] ~= ARGV[1] or (policy and (reports or '') .. '\n' .. policy or reports) ~= ARGV[2] then return 2 end
if strings[4] then return 0 end
for at = 5, #KEYS - 4, 2 do
  local held = strings[at + 1]
  -- A lock that is over is none. An entry's first line ends with the time.
  if strings[at] or held and match(ARGV[9], '^%S+ %S+ %S+ (%d+)') + 0 < (match(held, '^%d+') or 0) + 0 then return 0 end
end
-- Of the default policy: its windows, and a minute.
local id_px, lock_px = '86460000', '65000'
local limit, readers, most, second = tonumber(ARGV[3]), '0', nil, nil
if not limit then
  limit, readers, most, second, id_px, lock_px = match(ARGV[3], '^(%d+) (%d+) (%d+) (%S+) (%d+) (%S+)$')
  limit = limit + 0
  local clock = second ~= '-' and call('TIME')
  if clock and clock[1] ~= second then
    -- Behind by what the call waited for its turn; ahead by no more than clocks drift apart between two looks.
    local behind = clock[1] * 1000 + clock[2] / 1000 - match(ARGV[9], '^%S+ %S+ %S+ (%d+)')
    if behind > 1000 or behind < -250 then return clock end
  end
end

local GIFTS = (#KEYS - 8) / 2
local changes, answers, locks, gone = 9 + GIFTS, 9 + 2 * GIFTS, 9 + 3 * GIFTS, 9 + 4 * GIFTS
local keep, pcall = ARGV[4] + 0, redis.pcall
local entries, length, is_long
-- How many lists are to be taken back.
local back = 0
repeat
  if GIFTS == 1 then entries = call('RPUSHX', KEYS[3], ARGV[9])
  else entries = call('RPUSHX', KEYS[3], unpack(ARGV, 9, changes - 1)) end
  if entries == 0 then return 0 end
  is_long, back = entries > limit, 1
  -- Where somebody reads, there is more to be asked before something is cut.
  if is_long and (readers ~= '0' or not most or most == '0' or entries - GIFTS > limit) then break end
  if GIFTS == 1 then length = pcall('RPUSHX', KEYS[2], ARGV[10])
  else length = pcall('RPUSHX', KEYS[2], unpack(ARGV, changes, answers - 1)) end
  if length == 0 or type(length) == 'table' then break end
  back = 2
  if length < keep then break end
  -- Whether rows are there: once the list is full, by what leaves them.
  local leave = #ARGV - gone + 1
  if leave == 1 then
    if pcall('HDEL', KEYS[1], ARGV[gone]) == 1 then back = 0 end
  elseif leave > 1 then
    if pcall('HDEL', KEYS[1], unpack(ARGV, gone)) == leave then back = 0 end
  elseif pcall('HLEN', KEYS[1]) == match(ARGV[1], '^%S+ %d+ %d+ %d+ (%d+) ') + 0 then
    back = 0
  end
until true
if back > 0 then
  local own = string.format('%d', -1 - GIFTS)
  call('LTRIM', KEYS[3], '0', own)
  if back > 1 then call('LTRIM', KEYS[2], '0', own) end
  return 0
end

for gift = 0, GIFTS - 1 do
  call('PSETEX', KEYS[9 + 2 * gift], id_px, ARGV[answers + gift])
  if lock_px ~= '-' then call('PSETEX', KEYS[10 + 2 * gift], lock_px, ARGV[locks + gift]) end
end
if is_long then
  local hooks, start, base = match(reports, '^%d+ (%d+) %- %d+ (%d+) (%d+)')
  call('LTRIM', KEYS[3], '-' .. most, '-1')
  most = most + 0
  call('SET', KEYS[7], string.format('%d %s - 0 %s %d %d', most + math.min(256, math.floor(most / 32)), hooks, start,
    base + entries - most, most))
elseif readers ~= '0' then
  call('SET', KEYS[7], match(reports, '^%d+ %d+ %- %d+ %d+ %d+') .. string.format(' %d', entries))
end
-- Trimmed once in a while: 32 more than is covered.
if length > keep + 32 then call('LTRIM', KEYS[2], string.format('%d', -keep), '-1') end
-- A change's first line is its own, and then comes the row, whose first line is its id.
if GIFTS == 1 then
  local change = ARGV[10]
  local at = find(change, '\n', 1, true) + 1
  call('HSET', KEYS[1], sub(change, at, find(change, '\n', at, true) - 1), sub(change, at))
else
  local rows = {}
  -- Meta ends with the capacity.
  for gift = math.max(0, GIFTS - match(ARGV[6], '%d+$')), GIFTS - 1 do
    local change = ARGV[changes + gift]
    local at = find(change, '\n', 1, true) + 1
    rows[#rows + 1], rows[#rows + 2] = sub(change, at, find(change, '\n', at, true) - 1), sub(change, at)
  end
  call('HSET', KEYS[1], unpack(rows))
end
call('MSET', KEYS[4], ARGV[5], KEYS[5], ARGV[6])
call('SPUBLISH', ARGV[7], ARGV[8])
return 1
