-- probe: writes as every other script does, and publishes a mark: what readiness rests on.
--
-- It fails where any script would: the check in front of it (scripts/rights.rs) asks for every command that there is.
--
-- KEYS form
--     form: a STRING, the form of what is stored here, as in redis/form.rs
-- ARGV form probe_channel mark
--     form: to be set where there is none
--     mark: comes back on the channel
-- DATA writes
-- RETURNS the form that was there, or "", and how many subscribers the mark reached
-- REFUSES nothing

local known = redis.call('SET', KEYS.form, ARGV.form, 'NX', 'GET')
return { known or '', redis.call('SPUBLISH', ARGV.probe_channel, ARGV.mark) }
