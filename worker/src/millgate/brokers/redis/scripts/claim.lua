-- claim: worker, incarnation, call, n, ordered, topics' version, topics, levels when ordered, settlements.
-- Answers state, revision, topics' version, stale ids, claims by topic, ms to the next event, forward, now.
freeing()
queue()
local ENOUGH = 4000 -- microseconds of one call, about: what it asks for beyond is left for the next
local SLICE = 40
local name, incarnation, this, n, ordered = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1'
local numbers, at = subscription_at(7)
-- Topics that came since: nothing is handed over before the caller knows them.
if numbers and ARGV[6] ~= G.topics then n = 0 end
local levels
if ordered then
  levels = {}
  for k = 1, #numbers do levels[tonumber(numbers[k])] = tonumber(ARGV[at + k - 1]) end
  at = at + #numbers
end
local ops, refused = settlements_at(at)
if not ops then return refused end
tick()
local stale, groups, skipped = {}, {}, false
carry_out(ops, stale)

local w = call('HMGET', P .. 'w:' .. name, 'inc', 'wn', 'fence', 'call', 'seen')
local state = 'A'
local fence = tonumber(w[3] or nil)
if w[1] ~= incarnation or not present(w[5], w[3]) then
  state = 'U'
elseif fence and fence > NOW then
  state = 'F'
else
  fence = nil
end

local function group_for(t)
  local group = { t.name, t.c.lease or 60000, {}, {}, {}, {} }
  groups[#groups + 1] = group
  return group
end

-- A repeat: what the first call handed over and is still held, in the order of starting, its leases counted anew.
local function again()
  local rows, by = {}, {}
  for _, id in ipairs(call('SRANDMEMBER', P .. 'h:' .. w[2], 10000)) do
    local lease, row = lease_of(id), row_of(id)
    if lease and lease.call == this and row then rows[#rows + 1] = row end
  end
  table.sort(rows, function(one, other) return one.rank < other.rank end)
  for _, row in ipairs(rows) do
    local t = topic(row.tn)
    by[t.n] = by[t.n] or group_for(t)
    local group = by[t.n]
    call('ZADD', P .. 'leases', NOW + group[2], row.id)
    alarm(NOW + group[2])
    group[3][#group[3] + 1] = row.id
    group[4][#group[4] + 1] = row.rec
    group[5][#group[5] + 1] = call('HGET', P .. 'a', row.id) or ''
  end
end

-- Of more topics than are looked at: those with slots of their own, which may be free when nobody else's are.
local function with_reserve(list, most)
  local score_of, chosen = {}, {}
  for k, one in ipairs(list) do
    score_of[one[1]] = k > most and one[2]
    if k <= most then chosen[k] = one end
  end
  for _, tn in ipairs(reserved()) do
    local score = score_of[tn]
    if score == nil and not numbers then score = tonumber(call('ZSCORE', P .. 'active', tn) or nil) end
    if score then chosen[#chosen + 1] = { tn, score } end
  end
  table.sort(chosen, function(a, b) return a[2] < b[2] end)
  return chosen, #chosen
end

local function candidates()
  local most = G.limit and 500 or min(n + 1, 32)
  local list = {}
  if not numbers then
    local page = call('ZRANGE', P .. 'active', 0, most - 1, 'WITHSCORES')
    for k = 1, #page, 2 do list[#list + 1] = { tonumber(page[k]), tonumber(page[k + 1]) } end
  else
    for from = 1, #numbers, 500 do
      local last = min(from + 499, #numbers)
      local scores = call('ZMSCORE', P .. 'active', unpack(numbers, from, last))
      for k = 1, #scores do
        if scores[k] then list[#list + 1] = { tonumber(numbers[from + k - 1]), tonumber(scores[k]) } end
      end
    end
    if ordered then
      for _, one in ipairs(list) do one[2] = -levels[one[1]] * LEVEL + one[2] % LEVEL end
    end
    table.sort(list, function(a, b) return a[2] < b[2] end)
  end
  if G.limit and #list >= most then return with_reserve(list, most) end
  return list, most
end

local function entrant(tn, level)
  local t = topic(tn)
  local quota = allowed(t)
  if t.hp or t.c.paused or t.rg or quota <= 0 then return nil end
  return { t = t, level = level, quota = quota, pass = t.ps, unmet = G.limit and unmet(t) or 0, granted = 0 }
end

-- Those that may be served, the highest level first; what has waited long is raised to where it competes.
local function entrants()
  local list, most = candidates()
  local chosen, taken = {}, {}
  for k = 1, min(#list, most) do
    local level = ordered and levels[list[k][1]] or 9 - floor(list[k][2] / LEVEL)
    local one = entrant(list[k][1], level)
    if one then
      chosen[#chosen + 1] = one
      taken[list[k][1]] = one
    end
  end
  if ordered or not chosen[1] or call('EXISTS', P .. 'age') == 0 then return chosen end
  local top, mine = chosen[1].level, nil
  if numbers then
    mine = {}
    for _, tn in ipairs(numbers) do mine[tonumber(tn)] = true end
  end
  for _, member in ipairs(call('ZRANGEBYSCORE', P .. 'age', '-inf', NOW, 'LIMIT', 0, 32)) do
    local tn = tonumber(member)
    local t = topic(tn)
    local level = t.c.prio or 5
    if level >= top then
      call('ZADD', P .. 'age', NOW + 1000, tn)
    elseif not mine or mine[tn] then
      local boost, since = ceil((t.c.boost or 600) * 1000), oldest(t)
      if since and boost > 0 and NOW - since >= boost then
        local one = taken[tn] or entrant(tn, level)
        if one then
          one.level = min(top, level + floor((NOW - since) / boost))
          if not taken[tn] then chosen[#chosen + 1] = one end
        end
      else
        call('ZADD', P .. 'age', (since or NOW) + max(boost, 1000), tn)
      end
    end
  end
  table.sort(chosen, function(a, b)
    if a.level ~= b.level then return a.level > b.level end
    return a.t.n < b.t.n
  end)
  return chosen
end

local effort = max(ENOUGH - spent, 200) -- microseconds for what is handed over
local room = G.limit and G.limit - G.leased - G.unmet

local function cost(t) return gate_of(t, 'k') and 12 or 8 end

local function grant(one, count)
  if room then
    local own = min(one.unmet, count)
    one.unmet = one.unmet - own
    room = room - (count - own)
  end
  one.granted = one.granted + count
  one.pass = one.pass + count * STEP / weight(one.t)
  n, effort = n - count, effort - count * cost(one.t)
end

local function fits(one)
  local free = min(n, one.quota - one.granted, ceil(effort / cost(one.t)))
  if room then free = min(free, room + one.unmet) end
  return free
end

-- Share the rest of n among topics of one level: whoever is furthest behind is next.
local function share(here)
  local front = 0
  for _, one in ipairs(here) do front = max(front, one.pass) end
  for _, one in ipairs(here) do one.pass = max(one.pass, front - STEP) end
  while n > 0 do
    local best, second
    for _, one in ipairs(here) do
      if not one.done then
        if not best or one.pass < best.pass then
          second, best = best, one
        elseif not second or one.pass < second.pass then
          second = one
        end
      end
    end
    if not best then return end
    local free = fits(best)
    if free <= 0 then
      best.done = true
    elseif second then
      grant(best, min(free, floor((second.pass - best.pass) * weight(best.t) / STEP) + 1))
    else
      grant(best, free)
    end
  end
end

local function count_keys(t, ids, recs)
  local keys = {}
  for k = 1, #ids do
    local row = recs[k] and read(ids[k], recs[k])
    if row and row.key then keys[#keys + 1] = row.key end
  end
  count_ahead(P .. 'kl:' .. t.n, keys)
end

-- A row that sets nothing but its own times, and has not expired: when it does, -1 for never; nil: it is another.
local function light(rec)
  if #rec < 43 then return nil end
  local rank, _, expires, _, k, u, g = sunpack('>ddddHHH', rec, 6)
  if k + u + g > 0 or not (rank >= 0 and rank < 10 * SPAN) or (expires >= 0 and expires <= NOW) then return nil end
  return expires
end

local function serve(t, count)
  local ids = call('ZRANGE', t.q, 0, count - 1) -- ZPOPMIN would write out all their scores
  if #ids == 0 then return 0 end
  call('ZREM', t.q, unpack(ids))
  t.w = t.w - #ids
  local recs = call('HMGET', P .. 'm', unpack(ids))
  local counted = exists('a') and call('HMGET', P .. 'a', unpack(ids))
  local back = P .. 'b:' .. t.n
  local ready = call('EXISTS', back) == 1 and call('ZMSCORE', back, unpack(ids))
  if ready then call('ZREM', back, unpack(ids)) end
  local group = group_for(t)
  local out, records, attempts, since = group[3], group[4], group[5], group[6]
  local leases, held, until_ = {}, {}, NOW + group[2]
  local ends = string.format('%.0f', until_) -- as text, or it is written anew for each
  local tail = spack('>I4I4', t.n, tonumber(w[2])) .. name
  local plain, other = this .. '\0' .. tail, this .. '\1' .. tail
  local gated = gate_of(t, 'k') ~= nil
  if gated then count_keys(t, ids, recs) end
  local given, expiring = 0, {}
  for k = 1, #ids do
    local id, rec = ids[k], recs[k]
    local value, flag, expires = plain, rec and rec:byte(1), nil
    if flag == 1 and not gated and not (counted and counted[k]) then expires = light(rec) end
    if not rec then
      value = nil -- no message of ours
    elseif expires then
      t.s = t.s + 1
      if expires >= 0 then expiring[#expiring + 1] = id end
    elseif gated or flag ~= 0 or #rec < 21 or (counted and counted[k]) then
      value = other
      local row = read(id, rec)
      if not row then
        row = { id = id, tn = t.n, rank = 0, rec = rec, bad = true, counted = true, f = 0, l = 0, i = 0, failure = '',
          nowhere = true }
        t.e = t.e + 1
        bury(t, row, nil, 'Undecodable')
        value = nil
      else
        counts(row, counted and counted[k] or '')
        local g = gate_of(t, row.key)
        local holds = row.started and not stands_back(t, id)
        if g and not (t.c.order and holds) then call('ZREM', gate_key(t, g), id) end
        if holds then retrying(t, row, -1) end
        if row.expires and not row.started and row.expires <= NOW then
          row.nowhere = true
          row.failure = EXPIRED
          bury(t, row, nil, 'Expired')
          if g then fill(t, g) end
          value, spent = nil, spent + 25
        else
          if row.expires and not row.started then call('ZREM', P .. 'ex', id) end
          if row.key then tally(P .. 'kl:' .. t.n, row.key, 1) end
          if not row.started then t.s = t.s + 1 end
        end
      end
    else
      t.s = t.s + 1
    end
    if value then
      given = given + 1
      leases[2 * given - 1], leases[2 * given] = ends, id
      held[2 * given - 1], held[2 * given] = id, value
      out[given], records[given] = id, rec
      if counted then attempts[given] = counted[k] or '' end
      if ready then since[given] = ready[k] or '' end
    else
      skipped = true
    end
  end
  if expiring[1] then spread('ZREM', P .. 'ex', expiring) end
  if given > 0 then
    fill_zset(P .. 'leases', leases)
    alarm(until_)
    call('HSET', P .. 'L', unpack(held))
    call('SADD', P .. 'h:' .. w[2], unpack(out))
    hold(t, given)
    if t.c.rcount then t.tk = t.tk - given end
  end
end

-- What may have expired is taken in slices: how much of it has is not known before.
local function serve_all(t, count)
  local slice = count > SLICE and call('EXISTS', P .. 'ex') == 1 and SLICE or count
  for from = 1, count, slice do
    if from > 1 and spent > ENOUGH / 2 then
      skipped = true
      return
    end
    serve(t, min(slice, count - from + 1))
  end
end

local seen = tonumber(w[5] or nil) or 0
if state ~= 'U' and NOW - seen >= 250 then
  seen = NOW
  call('ZADD', P .. 'ws', NOW, name)
end
local full = false
if state ~= 'U' and w[4] == this then
  again()
  full = true
elseif state ~= 'U' then
  flush()
  carry()
  settle_index()
  if n > 0 and state == 'A' and not G.suspended then
    local chosen = entrants()
    local k = 1
    while k <= #chosen and n > 0 do
      local here, level = {}, chosen[k].level
      while chosen[k] and chosen[k].level == level do
        here[#here + 1] = chosen[k]
        k = k + 1
      end
      share(here)
    end
    for _, one in ipairs(chosen) do
      if one.granted > 0 then
        G.passes = G.passes or {}
        G.passes[one.t.c.prio or 5] = string.format('%.3f', one.t.ps)
        one.t.ps, one.t.arm = one.pass, true
        serve_all(one.t, one.granted)
      end
    end
    full = (n == 0 or effort <= 0) and not skipped
  end
  call('HSET', P .. 'w:' .. name, 'call', this, 'seen', seen)
end
finish(ARGV[4] ~= '0')
local due = ''
if full or skipped then due = '0' elseif state ~= 'U' then due = next_due(numbers, fence) end
return { state, G.rev, G.topics, stale, groups, due, exists('fw') and 1 or 0, NOW }
