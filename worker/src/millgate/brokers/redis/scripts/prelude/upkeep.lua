-- What somebody does once a second: note that a worker was here, and forget what is over.

local SILENCE = 90000 -- ms without a sign of life after which a start has its name no more

-- Whether a start has its name still, as it was seen and fenced last: a fence that lasts keeps it.
local function present(seen, fence)
  return seen and (tonumber(seen) > NOW - SILENCE or fence and tonumber(fence) > NOW)
end

-- A start leaves its name. What it holds stays under its number, which it is given back if it comes again within a day.
--@seldom
local function leave(name)
  local w = call('HMGET', P .. 'w:' .. name, 'inc', 'wn')
  if w[2] and call('EXISTS', P .. 'h:' .. w[2]) == 1 then
    call('SET', P .. 'wn:' .. name .. ':' .. w[1], w[2], 'PX', 86400000)
  end
  call('UNLINK', P .. 'w:' .. name)
end

--@seldom
local function forget_workers()
  for _, name in ipairs(call('ZRANGEBYSCORE', P .. 'ws', '-inf', NOW - SILENCE, 'LIMIT', 0, 20)) do
    local fence = tonumber(call('HGET', P .. 'w:' .. name, 'fence') or nil)
    if fence and fence > NOW then
      call('ZADD', P .. 'ws', fence - SILENCE, name) -- lest it stands before the others meanwhile
    else
      leave(name)
      call('ZREM', P .. 'ws', name)
    end
  end
end

-- Forget dead letters that are too many or too old, in some of the topics that have such.
--@seldom
local function age_out_dead()
  local left = 150
  for _, tn in ipairs(call('ZRANGEBYSCORE', P .. 'gv', '-inf', NOW, 'LIMIT', 0, 5)) do
    local t, next = topic(tonumber(tn)), NOW
    left = left - bound_dead(t, left)
    if left > 0 then
      local count
      count, next = age_dead(t, left)
      left = left - count
    end
    if next then call('ZADD', P .. 'gv', next, tn) else call('ZREM', P .. 'gv', tn) end
  end
end

-- Whether a topic has such.
--@seldom
local function overdue_dead() return call('ZRANGEBYSCORE', P .. 'gv', '-inf', NOW, 'LIMIT', 0, 1)[1] end

-- Note that somebody was here; after a gap nobody was, the owners of leases neither: they may renew first.
local function beat(last, grace)
  if last > 0 and NOW - last > 5000 and NOW - grace > 60000 then
    grace = NOW + 10000
    call('HSET', P .. 'g', 'grace', grace)
  end
  if NOW - last >= 1000 or NOW < last then call('HSET', P .. 'g', 'beat', NOW) end
  return grace
end

--@seldom
local function sweep()
  G.grace = beat(G.beat, G.grace)
  G.beat = NOW
  forget_workers()
  age_out_dead()
  for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'awx', '-inf', NOW, 'LIMIT', 0, 50)) do
    call('ZREM', P .. 'awx', id)
    call('HDEL', P .. 'aw', id)
  end
  for _, name in ipairs(call('ZRANGEBYSCORE', P .. 'lkx', '-inf', NOW, 'LIMIT', 0, 50)) do
    call('ZREM', P .. 'lkx', name)
    call('HDEL', P .. 'lk', name)
  end
end
