-- What time alone brings about, bounded: the rest waits for the next call.

--@seldom
local function promote(t, budget)
  local key = P .. 'd:' .. t.n
  local due = call('ZRANGEBYSCORE', key, '-inf', NOW, 'WITHSCORES', 'LIMIT', 0, budget)
  for k = 1, #due, 2 do
    call('ZREM', key, due[k])
    local row = row_of(due[k])
    if row then enter(t, row, tonumber(due[k + 1])) end
  end
  due_again(t)
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
  call('ZREM', P .. 'ex', id)
  local row = row_of(id)
  if not row then return end
  counts(row)
  if row.failure == '' then row.failure = EXPIRED end
  bury(topic(row.tn), row, nil, 'Expired')
end

--@seldom
local function happen()
  local budget = 100
  for _, tn in ipairs(call('ZRANGEBYSCORE', P .. 'due', '-inf', NOW, 'LIMIT', 0, 10)) do
    if budget > 0 then budget = promote(topic(tonumber(tn)), budget) end
  end
  local ready = call('ZRANGEBYSCORE', P .. 'later', '-inf', NOW, 'LIMIT', 0, 20)
  if ready[1] then
    call('ZREM', P .. 'later', unpack(ready))
    for _, tn in ipairs(ready) do topic(tonumber(tn)).arm = true end
  end
  for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'ex', '-inf', NOW, 'LIMIT', 0, 100)) do expire(id) end
  if NOW - G.beat >= 1000 or NOW < G.beat then sweep() end
  if NOW >= G.grace or G.grace - NOW > 10000 then -- never longer, should the clock have been set back
    for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'leases', '-inf', NOW, 'LIMIT', 0, 50)) do lapse(id) end
  end
  local moving = call('SRANDMEMBER', P .. 'rgs')
  if moving then regate(topic(tonumber(moving)), 200) end
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
