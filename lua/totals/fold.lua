-- fold: adds up what came; Rust puts this text behind feed_tally_ranks, in front of feed_tally.
--
-- Most gifts are alike: they came in the present span, and their giver gave in no other, money of one currency, nothing
-- near 2^53. What such gifters gave is summed up in tables by number, read and written by one struct call each, and only
-- who may come into a list is looked at further. Everything else (what is taken back, who is not ranked, several spans
-- or currencies) goes gifter by gifter through totals/gifters. Both give the same.

-- How many elements of tally were taken in, what those that stay begin with, and whether there are such.
local taken, head, stays, fold = 0, false, false, nil

-- Lua has room for 200 locals, which the texts in front nearly fill.
do
  -- FOLD: elements of tally that are added up in one call.
  local MAX_CURRENCIES, FOLD = 64, 4096


  -- Adds to the runs of a span, or takes from them.
  local function add_to(span, sign, gifts, units, points, values)
    for _, id in ipairs(span.ids) do
      local run = runs[id]
      run.gifts = math.max(run.gifts + sign * gifts, 0)
      run.units = sum_sum(run.units, units, sign)
      run.points = sum_sum(run.points, points, sign)
      for _, value in ipairs(values) do
        local currency = value[1]
        if not run.values[currency] and sign > 0 and run.count < MAX_CURRENCIES then
          run.values[currency], run.count = 0, run.count + 1
        end
        if run.values[currency] then run.values[currency] = sum_sum(run.values[currency], value[2], sign) end
      end
      if open[run.period] == run then stale[run.period] = true end
    end
  end

  -- What came for one span, as long as it stays plain numbers: added at once.
  local summed = false
  local function add_summed()
    if summed then add_to(summed.span, 1, summed.gifts, summed.units, summed.points, summed.values) end
    summed = false
  end

  local function add_plain(span, gifts, units, points, amount, currency)
    local all = summed
    if all and (all.span ~= span or all.total + units + points + amount >= LIMB) then
      add_summed()
      all = false
    end
    if not all then
      all = { span = span, gifts = 0, units = 0, points = 0, total = 0, values = {}, at = {} }
      summed = all
    end
    all.gifts, all.units, all.points = all.gifts + gifts, all.units + units, all.points + points
    all.total = all.total + units + points + amount
    if currency ~= '' then
      local value = all.at[currency]
      if not value then
        value = { currency, 0 }
        all.at[currency], all.values[#all.values + 1] = value, value
      end
      value[2] = value[2] + amount
    end
  end

  -- Takes in an entry, gifter by gifter.
  local function take_in(order, sign, span, when, person, gifts, units, points, amount, currency, flag, user)
    s.order, gifts = order, gifts + 0
    if sign > 0 then units, points, amount = units + 0, points + 0, amount == '' and 0 or amount + 0 end
    local it = gifters[user]
    if sign > 0 and flag == 'r' then it.person = person end
    if not span then return end
    if sign > 0 then
      add_plain(span, gifts, units, points, amount, currency)
    else
      add_summed()
      add_to(span, sign, gifts, units, points, currency ~= '' and { { currency, amount } } or {})
    end
    local given = given_in(it, span)
    given.gifts = math.max(given.gifts + sign * gifts, 0)
    if flag == 'r' then
      if units ~= 0 then move_score(it, span, given, 'u', units, sign, when) end
      if points ~= 0 then move_score(it, span, given, 'p', points, sign, when) end
      if currency ~= '' and amount ~= 0 then move_score(it, span, given, '$' .. currency, amount, sign, when) end
    end
  end

  -- Goes through entries and tells each to one of two: `plain` has those of who is ranked and gave in the present span, as
  -- long as numbers are plain. How many entries there were, and elements.
  local function each_entry(elements, plain, other)
    local ENTRY = '^(%d+) ([%d:]+) ([%d:]+) ([%d:]-):?%-?(%a*) (.) (.*)$'
    local present, sign, span, when, is_present = span_of(s.span), 1, false, 0, false
    local at, n, count = 1, 0, #elements
    while at <= count do
      local text = elements[at]
      local kind = string.byte(text)
      if kind == 64 then
        -- "@+ SPAN TIME" or "@- SPAN TIME"
        local mark, id
        mark, id, when = match(text, '^@(.) (%d+) (%d+)$')
        sign, span, head, at = mark == '+' and 1 or -1, span_of(id + 0), text, at + 1
        is_present = present and sign > 0 and span == present
        if is_present then when = when + 0 end
      elseif at == count and count == FOLD then
        break
      else
        local units, points, amount, currency, user
        if is_present then units, points, amount, currency, user = match(text, '^1 (%d+) (%d+) (%d*):?%-?(%a*) r (.*)$') end
        n = n + 1
        if user then
          plain(n, when, elements[at + 1] or '', units, points, amount, currency, user)
        else
          other(n, sign, span, is_present and int(when) or when, elements[at + 1] or '', match(text, ENTRY))
        end
        at = at + 2
      end
    end
    return n, math.min(at - 1, count)
  end

  -- What plain gifts of a user add up to, by the user's number: gifts; units, points and money, and the entry that was the last
  -- of each and its time; the currency; the newest person.
  local places, users, had_other = {}, {}, {}
  local g, u, p, c, u_n, p_n, c_n, u_at, p_at, c_at, money, persons = {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}

  local function number_of(user)
    local k = #users + 1
    places[user], users[k] = k, user
    g[k], u[k], p[k], c[k], u_n[k], p_n[k], c_n[k], money[k] = 0, 0, 0, 0, 0, 0, 0, ''
    return k
  end

  local function gather(n, when, person, units, points, amount, currency, user)
    local k = places[user] or number_of(user)
    g[k], persons[k] = g[k] + 1, person
    if units ~= '0' then u[k], u_n[k], u_at[k] = u[k] + units, n, when end
    if points ~= '0' then p[k], p_n[k], p_at[k] = p[k] + points, n, when end
    if currency ~= '' then
      if money[k] == '' then money[k] = currency elseif money[k] ~= currency then had_other[user] = true end
      if amount ~= '0' then c[k], c_n[k], c_at[k] = c[k] + amount, n, when end
    end
  end

  local function gather_other(_, _, _, _, _, _, _, _, _, _, _, user)
    had_other[user] = true
    if not places[user] then number_of(user) end
  end

  -- A score of a plain gifter is another: into lists with it, if it may come there.
  local function settle_plain(span, code, user, is, order, at, was, was_order)
    local bar = span.bars[code] or bar_of(span, code)
    if was < bar and is < bar then return end
    local best = span.best[code]
    local last = best and is > was and best[KEEP_FIRST]
    if last and (is < last.is or is == last.is and order > last.order) then
      best.more = true
      return
    end
    local score = { order = order, at = int(at), was_order = was_order }
    if is > was and is_put_off(span, code, user, score, is, was) then return end
    -- Nobody leads by a currency that a run does not sum up yet.
    add_summed()
    for _, id in ipairs(span.ids) do place(runs[id], code, user, was, was_order, is, order, score.at) end
  end

  -- Adds what was gathered of a user to what is stored of that user. False, and nothing done, where that is not plain.
  local function add_gathered(span, k, text, before)
    local user, currency = users[k], money[k]
    local gifts, units, u_order, u_when, points, p_order, p_when, amount, c_order, c_when = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
    local number, known
    if text then
      if string.byte(text) ~= 61 then return false end
      number, gifts, units, u_order, u_when, points, p_order, p_when, amount, c_order, c_when, known = struct.unpack(PLAIN, text, 2)
      if number < span.from or number > span.to then return false end
      if currency == '' then currency = known elseif known ~= '' and known ~= currency then return false end
    end
    local new_units, new_points, new_amount = units + u[k], points + p[k], amount + c[k]
    if new_units >= LIMB or new_points >= LIMB or new_amount >= LIMB then return false end
    add_plain(span, g[k], u[k], p[k], c[k], money[k])
    if gifts == 0 then
      for _, id in ipairs(span.ids) do runs[id].gifters = runs[id].gifters + 1 end
    end
    if u_n[k] > 0 then
      settle_plain(span, 'u', user, new_units, before + u_n[k], u_at[k], units, u_order)
      u_order, u_when = before + u_n[k], u_at[k]
    end
    if p_n[k] > 0 then
      settle_plain(span, 'p', user, new_points, before + p_n[k], p_at[k], points, p_order)
      p_order, p_when = before + p_n[k], p_at[k]
    end
    if c_n[k] > 0 then
      settle_plain(span, '$' .. currency, user, new_amount, before + c_n[k], c_at[k], amount, c_order)
      c_order, c_when = before + c_n[k], c_at[k]
    end
    plain_gifters[user] = '=' .. struct.pack(PLAIN, span.to, gifts + g[k], new_units, u_order, u_when, new_points, p_order, p_when,
      new_amount, c_order, c_when, #currency, currency) .. persons[k]
    return true
  end

  -- Adds up what came, a limited number of elements.
  fold = function()
    local elements = call('LRANGE', TALLY, '0', int(FOLD - 1))
    if #elements == 0 then return end
    changed = true
    local before, count, span = s.order, nil, span_of(s.span)
    count, taken = each_entry(elements, gather, gather_other)
    for from = 1, #users, 1000 do
      local to = math.min(from + 999, #users)
      for n, text in ipairs(call('HMGET', GIFTERS, unpack(users, from, to))) do
        local k = from + n - 1
        local user = users[k]
        if had_other[user] or not add_gathered(span, k, text, before) then
          had_other[user], gifters[user] = true, read_gifter(text)
        end
      end
    end
    if next(had_other) then
      local function again(n, sign, span, when, person, gifts, units, points, amount, currency, flag, user)
        if had_other[user] then
          take_in(before + n, sign, span, when, person, gifts, units, points, amount, currency, flag, user)
        end
      end
      each_entry(elements, function(n, when, person, units, points, amount, currency, user)
        if had_other[user] then again(n, 1, span, int(when), person, 1, units, points, amount, currency, 'r', user) end
      end, again)
    end
    s.order = before + count
    add_summed()
    for user, it in pairs(gifters) do settle_gifter(user, it) end
    place_best()
    stays = #elements == FOLD
  end
end
