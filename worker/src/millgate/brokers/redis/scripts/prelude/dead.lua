-- Dead letters: `dm` has them by id, `da` and `dz:<topic>` their order, `gv` the topics by when the next one is too old.
-- A packed one is a list: 1 topic, 2 reason, 3 when it died, 4 failure, 5 failures, 6 losses, 7 interruptions,
-- 8 attempt, 9 worker, 10 serial, 11 progress, 12 whether its row cannot be read (1) or can (0), 13 the row,
-- 14 the topic's number, 15 the topic that it is forwarded to. `fw` has those on their way, by serial, behind their ids.

-- Forget many of a topic's dead letters; how many were there.
--@seldom
local function forget_dead(ids, tn)
  if not ids[1] then return 0 end
  call('ZREM', P .. 'da', unpack(ids))
  call('ZREM', P .. 'dz:' .. tn, unpack(ids))
  local count = call('HDEL', P .. 'dm', unpack(ids))
  if exists('cb') then
    for _, id in ipairs(ids) do group_over(id) end
  end
  return count
end

--@seldom
local function bound_dead(t, budget)
  local most, key = t.c.most or 100000, P .. 'dz:' .. t.n
  if most == 0 then return 0 end
  local over = min(budget, call('ZCARD', key) - most)
  local gone_ = over > 0 and forget_dead(call('ZRANGE', key, 0, over - 1), t.n) or 0
  if gone_ > 0 then t.dp = t.dp + gone_ end
  return gone_
end

-- Forget a topic's dead letters that are too old, at most so many; how many, and when the next one is. Mostly none is:
-- so few are read at first, then more and more, since a letter may be long.
--@seldom
local function age_dead(t, budget)
  local keep_for, count, page = ceil((t.c.keep or 1209600) * 1000), 0, 1
  while count < budget do
    local ids = call('ZRANGE', P .. 'dz:' .. t.n, 0, min(page, budget - count) - 1)
    if not ids[1] then return count, nil end
    local old, next = {}, nil
    for k, packed in ipairs(call('HMGET', P .. 'dm', unpack(ids))) do
      local until_ = packed and munpack(packed)[3] + keep_for or 0
      if until_ > NOW then
        next = until_
        break
      end
      old[k] = ids[k]
    end
    if old[1] then t.dp = t.dp + forget_dead(old, t.n) end
    count, page = count + #old, 2 * page
    if next then return count, next end
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
