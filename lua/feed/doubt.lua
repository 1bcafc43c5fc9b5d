-- doubt: whether the store may have lost changes that watchers saw.

-- A server that was started again may have read an older file, and would give the numbers that watchers saw to other changes. The
-- last five letters of an epoch say which process began it. One that was running before the feed's last change has read no file
-- since: it was a replica, or the feed's slot came to it. A caller's time, and a change at a time still to come, prove nothing.
local function has_read_file(feed, changed)
  if string.sub(feed.epoch, -5) == string.sub(ARGV.candidate_epoch, 10, 14) then return false end
  local began = ARGV.now == '-' and tonumber(string.sub(ARGV.candidate_epoch, 16))
  return not (began and began < changed and changed <= feed.now + 1000)
end

-- The store went back behind what the caller's process saw: a failover lost changes, and others may have taken their numbers
-- since. Epochs sort by the time they began.
local function is_behind_caller(feed, covered)
  if ARGV.known_epoch == '' then return false end
  if ARGV.known_epoch ~= feed.epoch then return ARGV.known_epoch > feed.epoch end
  local known_seq = tonumber(ARGV.known_seq)
  if known_seq >= feed.seq then return known_seq > feed.seq or ARGV.known_tag ~= feed.tag end
  -- hist does not reach back that far, so nothing speaks against the caller.
  if known_seq < covered then return false end
  local change = redis.call('LINDEX', KEYS.hist, feed.int(known_seq - feed.seq))
  return string.match(change, '^{"seq":%d+,"prev":(%d+)') ~= ARGV.known_tag
end

return {
  is_founded = function(feed, covered, changed) return has_read_file(feed, changed) or is_behind_caller(feed, covered) end,
}
