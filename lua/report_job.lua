-- report_job: keeps what a webhook has done, if anything, and answers what it has to send. When that is nothing,
-- it rests from then on.
--
-- KEYS 9:
--   1 ledger
--   2 reports
--   3 readers
--   4 pending of the reader
--   5 leases of the reader
--   6 tries of the reader
--   7 again of the reader
--   8 dead of the reader
--   9 deaths of the reader
-- ARGV 10 + 4 per entry that was sent again and is done with ("a"), or becomes a dead letter ("d"):
--   1 now
--   2 reader
--   3 entries at most, of each kind
--   4 how long it gathers entries, milliseconds
--   5 stamp
--   6 "open" or "save"
--   7 progress as it was, and
--   8 as it is now
--   9 entries up to this number are done with, or ""
--   10 how many dead letters are kept
--   11 "a" or "d"
--   12 number, 16 digits
--   13 how often it was sent
--   14 why it is dead
-- RETURNS now, how many entries there are to be sent, the first one's number, progress, how many entries follow,
--   these, then numbers and entries that are sent again
-- REFUSES with nothing when it does not read here, or its progress is not as the caller thinks

meet_types()
local reader, most = reader_of(ARGV[2]), tonumber(ARGV[3])
if not reader or ARGV[6] == 'save' and reader.progress ~= ARGV[7] then return {} end
if ARGV[6] == 'save' then
  local done = {}
  for n = 11, #ARGV, 4 do
    local member, number = ARGV[n + 1], tonumber(ARGV[n + 1])
    if ARGV[n] == 'a' then
      done[#done + 1] = member
    else
      local text = call('HGET', AGAIN, member) or entry_at(number)
      if text then bury(number, text, tonumber(ARGV[n + 2]), ARGV[n + 3], tonumber(ARGV[10])) end
    end
  end
  in_parts('HDEL', AGAIN, done)
  reader.progress = ARGV[8]
  local through = tonumber(ARGV[9])
  if through then reader.floor = math.max(reader.floor, math.min(through + 1, behind)) end
  reader.handed = reader.floor
  keep_reader(reader)
end

local backlog, again = math.max(behind - reader.floor, 0), call('HKEYS', AGAIN)
if backlog == 0 and #again == 0 then
  rest(ARGV[2], ARGV[4], ARGV[5])
  keep_reports()
end
local answer = { int(now), int(backlog), int(reader.floor), reader.progress, '0' }
if backlog > 0 then
  local from = reader.floor - ledger.base
  local entries = call('LRANGE', LEDGER, int(from), int(from + most - 1))
  answer[5] = int(#entries)
  for _, text in ipairs(entries) do answer[#answer + 1] = text end
end
table.sort(again)
for n = 1, math.min(#again, most) do
  answer[#answer + 1] = again[n]
  answer[#answer + 1] = call('HGET', AGAIN, again[n])
end
return answer
