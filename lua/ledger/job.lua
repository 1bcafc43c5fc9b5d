-- job: keeps what a webhook has done, if anything, and answers what it has to send. When that is nothing,
-- it dozes from then on, and rests when it is looked at once more and there is still nothing.
--
-- KEYS ledger reports readers pending leases tries again dead deaths
-- ARGV now reader entries_at_most gathers stamp how was progress through dead_letters hooks_version, per entry: what
--   number tries reason
--     entries_at_most: of each kind
--     gathers: how long it gathers entries, milliseconds
--     how: "open" or "save"
--     was: progress as it was, and
--     progress: as it is now
--     through: entries up to this number are done with, or ""
--     dead_letters: how many are kept whose entries the ledger has no more
--     hooks_version: of a webhook of all feeds, the version of their set; else 0
--     what: "a" or "d"
--     number: 16 digits
--     tries: how often it was sent
--     reason: why it is dead
-- USES clock
-- DATA writes, always
-- RETURNS now, in how many milliseconds it is to be looked at again or "", how many entries there are to be sent, the first one's number, progress, how many dead letters made room, how many entries
--   follow, these, then numbers and entries that are sent again
-- REFUSES with nothing when it does not read here, or its progress is not as the caller thinks; with "hooks" when
--   that set is to be brought here first (ledger/attach)

meet_types()
if tonumber(ARGV.hooks_version) > ledger.hooks then return { 'hooks' } end
local reader, most = reader_of(ARGV.reader), tonumber(ARGV.entries_at_most)
if not reader or ARGV.how == 'save' and reader.progress ~= ARGV.was then return {} end
if let_go(reader) then keep_reader(reader) end
if ARGV.how == 'save' then
  local done = {}
  for n = 1, ITEM_COUNT do
    local member, number = ARGV.number[n], tonumber(ARGV.number[n])
    if ARGV.what[n] == 'a' then
      done[#done + 1] = member
    else
      local text = call('HGET', AGAIN, member) or entry_at(number)
      if text then bury(reader, number, text, tonumber(ARGV.tries[n]), ARGV.reason[n], tonumber(ARGV.dead_letters)) end
    end
  end
  in_parts('HDEL', AGAIN, done)
  reader.progress = ARGV.progress
  local through = tonumber(ARGV.through)
  if through then reader.floor = math.max(reader.floor, math.min(through + 1, behind)) end
  reader.handed = reader.floor
  keep_reader(reader)
end

local backlog, again, look = math.max(behind - reader.floor, 0), call('HKEYS', AGAIN), nil
-- What there was is counted with the next entry.
if ledger.vanished then backlog = 0 end
if backlog == 0 and #again == 0 then
  look = doze(ARGV.reader, ARGV.gathers, ARGV.stamp)
  keep_reports()
end
local answer = { int(now), look and int(look) or '', int(backlog), int(reader.floor), reader.progress, int(lost_letters), '0' }
if backlog > 0 then
  local from = reader.floor - ledger.base
  local entries = call('LRANGE', LEDGER, int(from), int(from + most - 1))
  answer[7] = int(#entries)
  for _, text in ipairs(entries) do answer[#answer + 1] = text end
end
table.sort(again)
for n = 1, math.min(#again, most) do
  answer[#answer + 1] = again[n]
  answer[#answer + 1] = call('HGET', AGAIN, again[n])
end
return answer
