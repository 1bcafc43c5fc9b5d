-- changes: the changes after a position, oldest first. Writes nothing.
--
-- KEYS list hist meta policy
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel since_epoch
--   since_seq most
--     most: the limit of the answer
-- USES clock policies list feed
-- LATER doubt
-- DATA reads
-- RETURNS where the feed stands, "covered" or "not covered", then the changes
-- REFUSES nothing

if feed.refusal then return feed.refusal end
-- A feed whose state is doubtful covers nothing; the snapshot that the caller takes next settles it.
if feed.is_lost or feed.is_strayed then return { '', 'not covered' } end
local since, most = tonumber(ARGV.since_seq), tonumber(ARGV.most)
if ARGV.since_epoch ~= (feed.epoch or '0') or not feed.covers(since) then return { feed.position(), 'not covered' } end
local answer = { feed.position(), 'covered' }
if since < feed.seq then
  local last = math.min(since + most, feed.seq)
  local changes = redis.call('LRANGE', KEYS.hist, feed.int(since - feed.seq), feed.int(last - feed.seq - 1))
  for at, change in ipairs(changes) do answer[at + 2] = change end
end
return answer
