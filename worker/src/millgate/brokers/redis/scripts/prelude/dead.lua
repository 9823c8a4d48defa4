-- Dead letters: `dm` has them by id, `da` and `dz:<topic>` their order, `gv` the topics by when the next one is too old.
-- A packed one is a list: 1 topic, 2 reason, 3 when it died, 4 failure, 5 failures, 6 losses, 7 interruptions,
-- 8 attempt, 9 worker, 10 serial, 11 progress, 12 whether its row cannot be read (1) or can (0), 13 the row,
-- 14 the topic's number, 15 the topic that it is forwarded to. `fw` has those on their way, by serial, behind their ids.

--@seldom
local function forget_dead(id, tn)
  call('ZREM', P .. 'da', id)
  call('ZREM', P .. 'dz:' .. tn, id)
  if call('HDEL', P .. 'dm', id) == 0 then return false end
  group_over(id)
  return true
end

--@seldom
local function bound_dead(t, budget)
  local most, key = t.c.most or 100000, P .. 'dz:' .. t.n
  if most == 0 then return end
  local over = min(budget, call('ZCARD', key) - most)
  if over > 0 then
    for _, id in ipairs(call('ZRANGE', key, 0, over - 1)) do
      forget_dead(id, t.n)
      t.dp = t.dp + 1
    end
  end
end

-- Forget a topic's dead letters that are too old, at most so many; how many, and when the next one is.
--@seldom
local function age_dead(t, budget)
  local keep_for = ceil((t.c.keep or 1209600) * 1000)
  for count = 0, budget - 1 do
    local id = call('ZRANGE', P .. 'dz:' .. t.n, 0, 0)[1]
    local until_ = id and munpack(call('HGET', P .. 'dm', id))[3] + keep_for
    if not id or until_ > NOW then return count, until_ end
    forget_dead(id, t.n)
    t.dp = t.dp + 1
  end
  return budget, NOW
end

local died = {} -- topic -> how many dead letters are new

--@seldom
local function bound_all_dead()
  for tn, count in pairs(died) do
    local t = topic(tn)
    call('ZADD', P .. 'gv', 'LT', NOW + ceil((t.c.keep or 1209600) * 1000), tn)
    bound_dead(t, count + 10)
    age_dead(t, count + 10)
  end
  died = {}
end

--@seldom
local function put_dead(t, id, letter)
  G.serial = G.serial + 1
  letter[10] = G.serial
  gather('HSET', P .. 'dm', id, mpack(letter))
  gather('ZADD', P .. 'da', G.serial, id)
  gather('ZADD', P .. 'dz:' .. t.n, G.serial, id)
  there.dm = true
  died[t.n] = (died[t.n] or 0) + 1
end

-- Give a message up: to the dead letters, to be forwarded by whoever hears of it, or dropped, as its topic says.
--@seldom
local function bury(t, row, lease, reason)
  counts(row)
  t.fl = t.fl + 1
  if not row.nowhere then remove(t, row, lease) end
  local attempt = row.f + row.l + row.i
  local progress = exists('pg') and call('HGET', P .. 'pg', row.id) or ''
  keep(t, row, 'F', nil, reason, attempt, max(MEMORY / 1000, ttl_of(t, row, nil)))
  local letter = { t.name, reason, NOW, row.failure, row.f, row.l, row.i, attempt, lease and lease.worker or '', 0,
    progress, row.bad and 1 or 0, row.rec, t.n }
  if t.c.dead == 'F' and not row.bad then
    G.serial = G.serial + 1
    letter[10] = G.serial
    letter[15] = t.c.target or ''
    gather('HSET', P .. 'fw', G.serial, mpack({ row.id, letter }))
    there.fw = true
  elseif t.c.dead ~= 'D' then
    put_dead(t, row.id, letter)
  end
  gone(t, row)
  told(row.id, 'F')
end
