-- Policies: what a topic does when it gets another one.

local moved, bounded = 100, 200 -- messages that one call lets through new gates, and dead letters that it forgets

--@seldom
local function gates(c) return (c.order or '') .. '/' .. (c.order and 1 or c.keys or '') end

-- What waits behind other gates passes the new ones; what is more than one call does waits for the next ones.
--@seldom
local function change_gates(t)
  local before = t.w + call('ZCARD', P .. 'pz:' .. t.n) + call('ZCARD', P .. 'z:' .. t.n)
  if before == 0 then return end
  t.rg = '1'
  call('HSET', P .. 't:' .. t.n, 'rg', '1')
  call('SADD', P .. 'rgs', t.n)
  alarm(NOW)
  if moved > 0 then regate(t, min(moved, 50)) end
  moved = moved - min(before, 50)
end

--@seldom
local function apply(t, packed)
  local before, reserve = t.c, t.c.reserve or 0
  t.c = munpack(packed)
  G.unmet = G.unmet - max(0, reserve - t.l) + unmet(t)
  call('HSET', P .. 't:' .. t.n, 'c', packed)
  if before.rcount ~= t.c.rcount or before.rper ~= t.c.rper or before.rcap ~= t.c.rcap then
    t.tk, t.ts, t.rated = nil, nil, false
    call('HDEL', P .. 't:' .. t.n, 'tk', 'ts')
    call('ZREM', P .. 'later', t.n) -- put there again when it is armed
  end
  if gates(before) ~= gates(t.c) then change_gates(t) end
  if gates(t.c) ~= '/' then call('HSET', P .. 'kl:' .. t.n, '', LONG) end
  local dead = call('ZCARD', P .. 'dz:' .. t.n)
  if dead > 0 then
    call('ZADD', P .. 'gv', NOW, t.n)
    bounded = bounded - (bounded > 0 and bound_dead(t, bounded) or 0)
  end
  t.arm, t.aged = true, true
end

-- Names of topics, and the policies that they get, in turn.
--@seldom
local function obey(todo)
  for k = 1, #todo, 2 do apply(topic(number_of(todo[k])), todo[k + 1]) end
end

-- More topics than change in one call change in several; how many, 0: do it now.
--@seldom
local function put_aside(this, todo)
  local each, parts = 2 * 30, 0
  if #todo <= 2 * each then return 0 end
  for from = 1, #todo, each do
    parts = parts + 1
    call('HSET', P .. 'part:' .. this, parts, mpack({ unpack(todo, from, min(from + each - 1, #todo)) }))
  end
  begin('topics', this, parts)
  return parts + 1
end
