-- policy: changes a feed's overrides. Another capacity trims at once and takes a seq (a reset),
-- unless nobody wrote to the feed yet.
--
-- KEYS list rows hist meta policy count
-- ARGV now candidate_epoch tag known_epoch known_seq known_tag default_policy idle_ttl live_channel how change
--     how: "replace" (PUT) or "merge" (PATCH)
--     change: as in `policy`; "-" where it says nothing
-- DATA writes
-- RETURNS the header, then the overrides now in force, as in `policy`
-- REFUSES nothing

settle()
local new = { match(ARGV.change, POLICY_TEXT) }
if overrides then
  for i, own in ipairs({ match(overrides, POLICY_TEXT) }) do
    -- Who may see the feed (9) is never reset by what does not name it.
    if new[i] == '-' and (i == 9 or ARGV.how == 'merge') then new[i] = own end
  end
end
local text = concat(new, ' ')
policy = policy_of(text)
resize()
if covered < seq - policy.history then covered = seq - policy.history end
commit(text)
if not string.find(text, '[^- ]') then
  call('DEL', KEYS.policy)
else
  call('SET', KEYS.policy, text)
end
-- Whatever counts is settled anew before the next gift; whoever changed the policy does that right away.
local own = overrides and { match(overrides, POLICY_TEXT) } or {}
local counts_anew = false
for i = 14, 16 do
  local was, is = own[i] or '-', new[i]
  counts_anew = counts_anew or was ~= is
end
if counts_anew and (strings[4] or new[14] ~= 'off' and new[14] ~= '-') then
  call('SET', KEYS.count, '?')
end
return { header(), text }
