-- snapshot: the list as it stands. Removes rows whose time is over; of a feed that nobody wrote to
-- it writes nothing.
--
-- KEYS list rows hist meta policy shown control told
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel
-- DATA writes, always
-- RETURNS the header, the overrides as in `policy` ("" for none), what overlays were told as in feed/control or "", how many rows, these, newest first, then what
--   watchers were told of the feed's drops, then of totals and goals
-- REFUSES with an error DAMAGED when the list names a row that is not there

if #entries > 0 then
  local ids, whole = {}, true
  for at, entry in ipairs(entries) do ids[at] = match(entry, '^%S+') end
  for at, text in ipairs(call('HMGET', ROWS, unpack(ids))) do
    texts[ids[at]] = text
    whole = whole and text
  end
  if not whole then return redis.error_reply('DAMAGED a list') end
end
settle()
local answer = { header(), overrides or '', strings[5] or '', int(#entries) }
for at, entry in ipairs(entries) do answer[at + 4] = texts[match(entry, '^%S+')] end
for _, key in ipairs({ KEYS.shown, KEYS.told }) do
  for _, told in ipairs(call('HVALS', key)) do answer[#answer + 1] = told end
end
commit('=')
return answer
