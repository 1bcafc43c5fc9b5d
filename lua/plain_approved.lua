-- plain_approved: looks whether a host has approved the names of plain gifts' givers; Rust puts this text in front of
-- plain_write in feeds in which gifts are looked at that have a message, or a name not approved before. Gifts with a message
-- do not come here. The last KEYS in front of the gifts' is approved (feed_guard), and a gift's last ARGV "USER NAME" as it has it.
-- REFUSES with "": a gift is to wait for the host, which is feed_publish's

do
  local names = {}
  for arg = FIRST_ARG + GIFT_ARGS - 1, #ARGV, GIFT_ARGS do names[#names + 1] = ARGV[arg] end
  local until_ = call('ZMSCORE', KEYS[FIRST_KEY - 1], unpack(names))
  for n = 1, #names do
    if not until_[n] or now >= until_[n] + 0 then return { '' } end
  end
end
