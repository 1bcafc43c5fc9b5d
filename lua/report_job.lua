-- report_job: keeps what a webhook has done, if anything, and answers what it has to send. When that is nothing,
-- it dozes from then on, and rests when it is looked at once more and there is still nothing.
--
-- KEYS 9:
--   1 ledger
--   2 reports
--   3 readers
--   4 pending: of the reader
--   5 leases: of the reader
--   6 tries: of the reader
--   7 again: of the reader
--   8 dead: of the reader
--   9 deaths: of the reader
-- ARGV 11 + 4 per entry that was sent again and is done with ("a"), or becomes a dead letter ("d"):
--   1 now
--   2 reader
--   3 entries at most, of each kind
--   4 gathers: how long it gathers entries, milliseconds
--   5 stamp
--   6 how: "open" or "save"
--   7 was: progress as it was, and
--   8 progress: as it is now
--   9 through: entries up to this number are done with, or ""
--   10 dead letters: how many are kept whose entries the ledger has no more
--   11 hooks version: of a webhook of all feeds, the version of their set; else 0
--   12 what: "a" or "d"
--   13 number, 16 digits
--   14 tries: how often it was sent
--   15 reason: why it is dead
-- DATA writes, always
-- RETURNS now, in how many milliseconds it is to be looked at again or "", how many entries there are to be sent, the first one's number, progress, how many dead letters made room, how many entries
--   follow, these, then numbers and entries that are sent again
-- REFUSES with nothing when it does not read here, or its progress is not as the caller thinks; with "hooks" when
--   that set is to be brought here first (report_attach)

meet_types()
if tonumber(ARGV[11]) > ledger.hooks then return { 'hooks' } end
local reader, most = reader_of(ARGV[2]), tonumber(ARGV[3])
if not reader or ARGV[6] == 'save' and reader.progress ~= ARGV[7] then return {} end
if let_go(reader) then keep_reader(reader) end
if ARGV[6] == 'save' then
  local done = {}
  for n = 12, #ARGV, 4 do
    local member, number = ARGV[n + 1], tonumber(ARGV[n + 1])
    if ARGV[n] == 'a' then
      done[#done + 1] = member
    else
      local text = call('HGET', AGAIN, member) or entry_at(number)
      if text then bury(reader, number, text, tonumber(ARGV[n + 2]), ARGV[n + 3], tonumber(ARGV[10])) end
    end
  end
  in_parts('HDEL', AGAIN, done)
  reader.progress = ARGV[8]
  local through = tonumber(ARGV[9])
  if through then reader.floor = math.max(reader.floor, math.min(through + 1, behind)) end
  reader.handed = reader.floor
  keep_reader(reader)
end

local backlog, again, look = math.max(behind - reader.floor, 0), call('HKEYS', AGAIN), nil
-- What there was is counted with the next entry.
if ledger.vanished then backlog = 0 end
if backlog == 0 and #again == 0 then
  look = doze(ARGV[2], ARGV[4], ARGV[5])
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
