-- forget: forgets a reader with all it has.
--
-- KEYS ledger reports readers pending leases tries again dead deaths
-- ARGV now reader
-- USES clock stored reports reader
-- DATA writes, always
-- RETURNS "1" when it read here, else "0"
-- REFUSES nothing

reader.check_types()
return reports.int(reader.forget(ARGV.reader))
