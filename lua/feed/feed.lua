-- feed: where a feed stands, its policy, and the changes that this call makes.
--
-- Every change of a feed takes the next seq of an epoch. A new epoch begins where changes that watchers saw may be gone (doubt);
-- watchers get a snapshot then.
--
--   meta  STRING of JSON:
--         epoch, seq, tag  the last change, and the tag of the call that made it, as text
--         covered          positions from here on can be resumed by hist alone
--         rows             how long list is; another number means that it was evicted
--         expires_at       no row expires before this; missing where none does
--         list_epoch       the epoch in which the list began; locks of another list do not count
--         idle_ttl         after which time without a change the feed expires; 0 for never
--         capacity         the list is cut to this; another one in force is a reset
--         changed          when the feed changed last
--   hist  LIST of JSON, oldest first: the last changes, one per seq; at least `seq - covered` of them:
--         {"seq":N,"prev":TAG,"tag":TAG,"op":OP}, and of add and update the row besides, of retracted and expired its id, of control
--         the action and an id, of drop, totals and goal a text
--
-- Redis does not roll a script back. So a script reads every key and decides everything, and only then writes: what is of a wrong
-- type or unreadable ends it while nothing is written.

local call, format = redis.call, string.format
-- How much longer than what is covered hist may grow, so that it is cut once in a while and not by every call.
local HISTORY_SLACK = 32
local candidate, idle_ttl = string.sub(ARGV.candidate_epoch, 1, 14), ARGV.idle_ttl

-- tostring would give 1e+15; this is exact up to 2^53.
local function int(number)
  return format('%d', number)
end

local policy, now, changes, commits = policies.with(STRINGS.policy), clock.now, {}, {}
local feed = {
  now = now, time = clock.text, steady = clock.steady, int = int, policy = policy, changes = changes, commits = commits,
  epoch = false, seq = 0, seq_text = '0', tag = '0', expires_at = false, list_epoch = false,
  -- is_lost: the list is gone or damaged. is_strayed: the list is whole, but not what watchers have seen.
  is_lost = false, is_strayed = false,
  -- Rows may have expired, or the list is to be cut to another capacity.
  is_unsettled = false, is_resized = false,
  -- What is to be answered instead of everything; a time from which on the feed must be in the index of feeds first.
  refusal = false, unready_at = false,
  -- Below.
  begin = false, covers = false, set_policy = false, next_seq = false, record = false, row_expiry = false, forget_history = false,
  announce = false, commit = false, call_in_parts = false, position = false,
}
local covered, history, idle_before, new_policy = 0, call('LLEN', KEYS.hist), 0, nil

-- What meta says; nil if that cannot be read.
local function read_meta()
  local is_json, meta = pcall(cjson.decode, STRINGS.meta)
  local is_whole = is_json and type(meta) == 'table' and type(meta.epoch) == 'string' and type(meta.list_epoch) == 'string'
    and meta.seq and meta.tag and meta.covered and meta.rows and meta.idle_ttl and meta.capacity and meta.changed
  return is_whole and meta or nil
end

do
  local meta = STRINGS.meta and read_meta()
  if not policy or STRINGS.meta and not meta then
    -- What is there and cannot be read is neither guessed nor written over.
    feed.refusal = redis.error_reply(policy and "DAMAGED a feed's meta" or 'DAMAGED a policy')
  elseif meta and meta.rows == list.count then
    feed.epoch, feed.seq, feed.seq_text, feed.tag = meta.epoch, meta.seq + 0, int(meta.seq), meta.tag
    feed.list_epoch, feed.expires_at = meta.list_epoch, meta.expires_at or false
    covered, idle_before = meta.covered + 0, meta.idle_ttl
    local is_as_known = ARGV.known_epoch == feed.epoch and ARGV.known_seq == feed.seq_text and ARGV.known_tag == feed.tag
    local is_of_this_server = string.sub(feed.epoch, -5) == string.sub(candidate, -5)
    feed.is_strayed = history < feed.seq - covered
      or not (is_of_this_server and (is_as_known or ARGV.known_epoch == '')) and LATER.doubt.is_founded(feed, covered, meta.changed)
    feed.is_resized = policy.capacity ~= meta.capacity
    feed.is_unsettled = feed.is_resized or feed.expires_at and now >= feed.expires_at
  elseif meta or list.count + history > 0 then
    feed.is_lost = true
    list.count = 0
  end
end
if feed.is_strayed then feed.epoch, covered = candidate, feed.seq end

-- Begins a feed that nobody wrote to.
function feed.begin()
  if not feed.epoch then feed.epoch, feed.list_epoch = candidate, candidate end
end

-- Takes the next seq, as text. `record` is to follow.
function feed.next_seq()
  feed.begin()
  feed.seq = feed.seq + 1
  feed.seq_text = int(feed.seq)
  return feed.seq_text
end

-- Adds the change whose seq was just taken: what happened, and the change's other members.
function feed.record(op, members)
  changes[#changes + 1] = '{"seq":' .. feed.seq_text .. ',"prev":' .. feed.tag .. ',"tag":' .. ARGV.tag .. ',"op":"' .. op .. '"'
    .. members .. '}'
  feed.tag = ARGV.tag
end

-- When a row expires that changes now; nil where rows do not.
function feed.row_expiry()
  if policy.row_ttl_ms == 0 then return nil end
  local expires_at = math.min(now + policy.row_ttl_ms, clock.MAX_TIME)
  if not feed.expires_at or expires_at < feed.expires_at then feed.expires_at = expires_at end
  return expires_at
end

-- What is set for the feed is this from now on, as policies has it; "" for nothing. Watchers are notified.
function feed.set_policy(text)
  local before = policy
  policy, new_policy = policies.with(text ~= '' and text or nil), text
  feed.policy = policy
  feed.is_resized = feed.epoch and policy.capacity ~= before.capacity
  feed.is_unsettled = feed.is_unsettled or feed.is_resized
end

-- Whether watchers can resume from this seq.
function feed.covers(seq)
  return seq >= covered and seq <= feed.seq
end

-- Nobody can resume from before the last change.
function feed.forget_history()
  covered = feed.seq
end

-- Publishes to all nodes what happened: a line of JSON, and one for each change.
function feed.announce(news, lines)
  lines[0] = '{"news":"' .. news .. '","epoch":"' .. (feed.epoch or '0') .. (new_policy and '","policy":true}' or '"}')
  call('SPUBLISH', ARGV.live_channel, table.concat(lines, '\n', 0))
end

-- Writes what was decided, and publishes the changes.
function feed.commit()
  local is_anew = feed.is_lost or feed.is_strayed
  if is_anew then
    call('UNLINK', KEYS.hist, feed.is_lost and KEYS.meta or KEYS.hist)
    history = 0
  end
  if is_anew or #changes > 0 or new_policy then
    local rows = list.commit()
    if feed.epoch then
      covered = math.max(covered, feed.seq - policy.history)
      local keep = feed.seq - covered
      if keep == 0 then
        if history > 0 then call('UNLINK', KEYS.hist) end
      elseif #changes > 0 then
        call('RPUSH', KEYS.hist, unpack(changes))
        if history + #changes > keep + HISTORY_SLACK then call('LTRIM', KEYS.hist, int(-keep), '-1') end
      end
      call('SET', KEYS.meta, '{"epoch":"' .. feed.epoch .. '","seq":' .. feed.seq_text .. ',"tag":"' .. feed.tag
        .. format('","covered":%d,"rows":%d,"capacity":%d', covered, rows, policy.capacity)
        .. (feed.expires_at and ',"expires_at":' .. int(feed.expires_at) or '') .. ',"list_epoch":"' .. feed.list_epoch
        .. '","idle_ttl":' .. idle_ttl .. ',"changed":' .. feed.time .. '}')
      if idle_ttl ~= '0' then
        for _, key in ipairs({ KEYS.meta, KEYS.list, KEYS.hist }) do call('PEXPIRE', key, idle_ttl) end
      elseif idle_before ~= 0 then
        for _, key in ipairs({ KEYS.list, KEYS.hist }) do call('PERSIST', key) end
      end
    end
    feed.announce(is_anew and 'lost' or 'live', changes)
  end
  for at = 1, #commits do commits[at]() end
end

-- Calls a command with all of these arguments, a thousand at a time: Redis' Lua cannot unpack many more.
function feed.call_in_parts(command, key, all)
  for from = 1, #all, 1000 do call(command, key, unpack(all, from, math.min(from + 999, #all))) end
end

-- Where the feed stands now, for the caller.
function feed.position()
  return (feed.epoch or '0') .. ' ' .. feed.seq_text .. ' ' .. feed.tag .. ' ' .. feed.time
end

return feed
