-- feed_changes: the changes after a position, oldest first. Writes nothing.
--
-- KEYS 5:
--   1 list
--   2 rows
--   3 hist
--   4 meta
--   5 policy
-- ARGV 12:
--   1 now
--   2 candidate epoch
--   3 tag
--   4 known epoch
--   5 known seq
--   6 known tag
--   7 default policy
--   8 idle ttl
--   9 live channel
--   10 since epoch
--   11 since seq
--   12 most: at most so many
-- DATA reads
-- RETURNS the header, "covered" or "not covered", then the changes
-- REFUSES nothing

-- A feed whose state is doubtful covers nothing; the snapshot that the caller takes next settles it.
if lost or strayed then return { '', 'not covered' } end
local since, most = tonumber(ARGV[11]), tonumber(ARGV[12])
if ARGV[10] ~= (epoch or '0') or since < covered or since > seq then
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
