-- What time alone brings about, bounded: the rest waits for the next call.

--@seldom
local function promote(t, budget)
  local key, ids, rows = P .. 'd:' .. t.n, {}, {}
  local due = call('ZRANGEBYSCORE', key, '-inf', NOW, 'WITHSCORES', 'LIMIT', 0, budget)
  for k = 1, #due, 2 do ids[#ids + 1] = due[k] end
  spread('ZREM', key, ids)
  fetch(ids)
  for k, id in ipairs(ids) do
    local row = row_of(id)
    if row then
      row.due = tonumber(due[2 * k])
      rows[#rows + 1] = row
    end
  end
  approach(rows)
  for _, row in ipairs(rows) do enter(t, row, row.due) end
  redue[t.n], dirty = true, true
  return budget - #due / 2
end

--@seldom
local function lapse(id)
  local lease, row = lease_of(id), row_of(id)
  if not lease or not row then
    call('ZREM', P .. 'leases', id)
    call('HDEL', P .. 'L', id)
    return
  end
  local t = topic(row.tn)
  counts(row)
  row.l = row.l + 1
  row.given = true
  if exists('cx') and call('SISMEMBER', P .. 'cx', id) == 1 then
    cancelled(t, row, lease)
  elseif row.l > (t.c.losses or 5) then
    row.failure = cjson.encode({ 'millgate.errors.LeaseLost',
      'lost ' .. row.l .. " times; last held by '" .. lease.worker .. "', whose lease ended", '' })
    bury(t, row, lease, 'Lost')
  else
    give_back(t, row, lease, NOW)
  end
end

local EXPIRED = '["millgate.Expired", "it did not start before it expired", ""]'

--@seldom
local function expire(id)
  local row = row_of(id)
  if not row then
    call('ZREM', P .. 'ex', id)
    return
  end
  counts(row)
  if row.failure == '' then row.failure = EXPIRED end
  bury(topic(row.tn), row, nil, 'Expired')
end

local ALLOWED = 1500 -- microseconds of one call for all that is due, about
local COST = { due = 12, ex = 15, leases = 25, rgs = 12 } -- of one row

-- How many rows of each kind are taken on: what is due shares the call.
--@seldom
local function shares()
  local kinds, many = {}, 0
  for _, name in ipairs({ 'due', 'ex', 'leases' }) do
    local when = tonumber(call('ZRANGE', P .. name, 0, 0, 'WITHSCORES')[2])
    kinds[name] = when and when <= NOW
  end
  -- never longer, should the clock have been set back
  kinds.leases = kinds.leases and (NOW >= G.grace or G.grace - NOW > 10000)
  kinds.rgs = call('SRANDMEMBER', P .. 'rgs')
  for _, is in pairs(kinds) do if is then many = many + 1 end end
  for name, cost in pairs(COST) do kinds[name] = kinds[name] and floor(ALLOWED / many / cost) or 0 end
  return kinds
end

--@seldom
local function each_of(name, most, act)
  local ids = call('ZRANGEBYSCORE', P .. name, '-inf', NOW, 'LIMIT', 0, most)
  fetch(ids)
  for _, id in ipairs(ids) do act(id) end
  carry()
  spent = spent + #ids * COST[name]
end

--@seldom
local function happen()
  local set_back = NOW < G.beat
  if set_back or NOW - G.beat >= 1000 then sweep() end -- may give leases a grace
  local share = shares()
  if share.due > 0 then
    local left = share.due
    for _, tn in ipairs(call('ZRANGEBYSCORE', P .. 'due', '-inf', NOW, 'LIMIT', 0, 10)) do
      if left > 0 then left = promote(topic(tonumber(tn)), left) end
    end
    carry()
    spent = spent + (share.due - left) * COST.due
  end
  local ready = call('ZRANGEBYSCORE', P .. 'later', '-inf', set_back and '+inf' or NOW, 'LIMIT', 0, set_back and 200 or 20)
  if ready[1] then
    call('ZREM', P .. 'later', unpack(ready))
    for _, tn in ipairs(ready) do topic(tonumber(tn)).arm = true end
  end
  if share.ex > 0 then each_of('ex', share.ex, function(id) expire(id) end) end
  if share.leases > 0 then each_of('leases', share.leases, function(id) lapse(id) end) end
  local moving = call('SRANDMEMBER', P .. 'rgs')
  if moving and share.rgs > 0 then
    regate(topic(tonumber(moving)), share.rgs)
    carry()
    spent = spent + share.rgs * COST.rgs
  end
  G.alarm = moving and NOW or 9e15
  for _, key in ipairs({ 'due', 'later', 'ex', 'leases' }) do
    local when = tonumber(call('ZRANGE', P .. key, 0, 0, 'WITHSCORES')[2])
    if when then alarm(when) end
  end
end

local function tick()
  if NOW >= G.alarm or NOW - G.beat >= 1000 or NOW < G.beat then happen() end
end

-- Milliseconds until time alone may make something claimable for these topics (nil: all); '' when nothing will.
local function next_due(numbers, fence)
  local soonest = tonumber(call('ZRANGE', P .. 'leases', 0, 0, 'WITHSCORES')[2]) or nil
  for _, key in ipairs({ P .. 'due', P .. 'later' }) do
    if numbers then
      for at = 1, #numbers, 500 do
        for _, value in ipairs(call('ZMSCORE', key, unpack(numbers, at, min(at + 499, #numbers)))) do
          local when = tonumber(value or nil)
          if when and (not soonest or when < soonest) then soonest = when end
        end
      end
    else
      local when = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
      if when and (not soonest or when < soonest) then soonest = when end
    end
  end
  if fence and (not soonest or fence < soonest) then soonest = fence end
  if not soonest then return '' end
  return tostring(max(0, soonest - NOW))
end
