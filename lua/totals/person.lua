-- person: what one user gave in each run.
--
--   people  HASH, user -> MessagePack: runs: by the number of each run {gifts = N, [MEASURE] = N, …}, how many gifts counted, and scores;
--           name: {"id","name","avatar"} as JSON, the newest, of who is in a ranking. Who is anonymous or masked has no scores. A score of
--           0 stays until the user is ranked anew

-- What the record says; nothing of a user without one.
local function decode(text)
  return text and cmsgpack.unpack(text) or { runs = {}, name = false }
end

local function encode(it)
  return cmsgpack.pack(it)
end

return { decode = decode, encode = encode }
