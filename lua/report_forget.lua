-- report_forget: forgets a reader with all it has.
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
-- ARGV 2:
--   1 now
--   2 reader
-- DATA writes, always
-- RETURNS "1" when it read here, else "0"
-- REFUSES nothing

meet_types()
return int(forget(ARGV[2]))
