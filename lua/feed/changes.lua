-- changes: the changes after a position, oldest first. Writes nothing.
--
-- KEYS list rows hist meta policy
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel since_epoch
--   since_seq most
--     most: the limit of the answer
-- DATA reads
-- RETURNS the header, "covered" or "not covered", then the changes
-- REFUSES nothing

-- A feed whose state is doubtful covers nothing; the snapshot that the caller takes next settles it.
if lost or strayed then return { '', 'not covered' } end
local since, most = tonumber(ARGV.since_seq), tonumber(ARGV.most)
if ARGV.since_epoch ~= (epoch or '0') or since < covered or since > seq then
  return { header(), 'not covered' }
end
local answer = { header(), 'covered' }
if since < seq then
  local last = math.min(since + most, seq)
  for _, change in ipairs(call('LRANGE', HIST, since - seq, last - seq - 1)) do
    answer[#answer + 1] = change
  end
end
return answer
