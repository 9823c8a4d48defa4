-- What every verb stands on. KEYS[1] is the queue's bare prefix, a key that never exists: a Cluster that is moving the
-- slot then answers ASK before anything runs, instead of failing half-way. Time is the server's, in milliseconds.
-- A verb is composed with the functions that it uses; those under `--@seldom` are made when one of them is called, since
-- making all of them would cost a short call more than its work. So they are called, never passed on as values.
local call, floor, ceil, min, max = redis.call, math.floor, math.ceil, math.min, math.max
local mpack, munpack, spack, sunpack = cmsgpack.pack, cmsgpack.unpack, struct.pack, struct.unpack
local P = KEYS[1]
local SCHEMA = '1'
local SPAN = 562949953421312 -- rank = (9 - priority) * SPAN + number of publication; the smallest runs first
local LEVEL = 1e14 -- score in `active` = (9 - level) * LEVEL + pass
local STEP = 1000 -- a start of weight w advances the pass by STEP / w; nobody is more than STEP behind the front
local MEMORY = 60000 -- ms for which an id that ended without a trace stays known
local GENERATION, MOST = 20000, 125000 -- a generation of such ids: ms, and number

local found = call('GET', P .. 'schema')
if found ~= SCHEMA then
  return redis.error_reply('MGSCHEMA ' .. (found or 'none'))
end
local instant = call('TIME')
local NOW = instant[1] * 1000 + floor(instant[2] / 1000)
local T, G = {}, nil -- topics that were touched, the queue's own row
local M, fresh = {}, {} -- rows to be written, and ids among them
local there = {} -- whether a seldom used key exists
local SELDOM = { 'a', 'cx', 'pg', 'wt', 'aw', 'fw', 'cb', 'dm' }

-- The first write decides whether a server without memory lets a script pass: a DEL may always.
local function freeing() call('DEL', P) end

local function queue()
  local v = call('HMGET', P .. 'g', 'rev', 'ql', 'mw', 'un', 'sus', 'inf', 'ur', 'seq', 'ser', 'beat', 'grace',
    'rcn', 'rct', 'tn', 'born', 'al', 'rcc')
  G = { rev = tonumber(v[1]) or 0, limit = tonumber(v[2]), most = tonumber(v[3]), reject = v[4] == '1',
    suspended = v[5] == '1', leased = tonumber(v[6]) or 0, unmet = tonumber(v[7]) or 0, seq = tonumber(v[8]) or 0,
    serial = tonumber(v[9]) or 0, beat = tonumber(v[10]) or 0, grace = tonumber(v[11]) or 0,
    gen = tonumber(v[12]) or 0, gent = tonumber(v[13]) or 0, topics = (v[15] or '') .. '.' .. (v[14] or '0'),
    alarm = tonumber(v[16]) or 0, count = tonumber(v[17]) or 0, passes = {} }
  G.was = { al = G.alarm, inf = G.leased, ur = G.unmet, seq = G.seq, ser = G.serial, rcn = G.gen, rcc = G.count }
end

-- Time alone changes something then: whoever comes by at that time has to tick.
local function alarm(when)
  if when < G.alarm then G.alarm = when end
end

local function exists(name)
  local known = there[name]
  if known == nil then
    if there.asked == nil then
      there.asked = true
      if call('EXISTS', P .. 'a', P .. 'cx', P .. 'pg', P .. 'wt', P .. 'aw', P .. 'fw', P .. 'cb', P .. 'dm') == 0 then
        for _, none in ipairs(SELDOM) do if there[none] == nil then there[none] = false end end
        if there[name] ~= nil then return there[name] end
      end
    end
    known = call('EXISTS', P .. name) == 1
    there[name] = known
  end
  return known
end

-- --- topics ---------------------------------------------------------------------------------------

local function topic(tn)
  local t = T[tn]
  if t then return t end
  local v = call('HMGET', P .. 't:' .. tn, 'c', 'nm', 'l', 'ps', 'tk', 'ts', 'hp', 'rg', 'rh', 'e', 's', 'ok', 'fl')
  if not v[2] then return nil end
  local q = P .. 'q:' .. tn
  local w = call('ZCARD', q)
  t = { n = tn, raw = v[1], c = munpack(v[1]), name = v[2], l = tonumber(v[3]) or 0, ps = tonumber(v[4]) or 0,
    tk = tonumber(v[5]), ts = tonumber(v[6]), hp = v[7] == '1', rg = v[8], rh = tonumber(v[9]) or 0, q = q, w = w,
    e = tonumber(v[10]) or 0, s = tonumber(v[11]) or 0, ok = tonumber(v[12]) or 0, fl = tonumber(v[13]) or 0 }
  t.e0, t.s0, t.ok0, t.fl0 = t.e, t.s, t.ok, t.fl
  t.w0, t.l0, t.rh0, t.ps0, t.l1 = w, t.l, t.rh, t.ps, t.l
  T[tn] = t
  return t
end

--@seldom
local function number_of(name)
  local tn = call('HGET', P .. 'tn', name)
  if tn then return tonumber(tn) end
  tn = call('HINCRBY', P .. 'g', 'tn', 1)
  call('HSET', P .. 'tn', name, tn)
  call('HSET', P .. 't:' .. tn, 'c', call('HGET', P .. 'g', 'df'), 'nm', name)
  G.topics, G.grown = (G.topics:match('^[^.]*')) .. '.' .. tn, true
  return tn
end

local function weight(t) return t.c.weight or 10 end

-- The topic's own limit: FIFO is one at a time.
local function limit_of(t)
  if t.c.order == 'F' then return 1 end
  return t.c.limit
end

local function tokens(t)
  local c = t.c
  local have = t.tk or c.rcap
  local since = t.ts or NOW
  if NOW > since then
    have = min(c.rcap, have + (NOW - since) * c.rcount / c.rper)
  end
  t.tk, t.ts, t.rated = have, max(NOW, since), true
  return have
end

local function whole(have) return floor(have + 1e-9) end

-- Leases of a topic grew by k: the queue's counts follow.
local function hold(t, k)
  local reserve = t.c.reserve
  if reserve then
    G.unmet = G.unmet - max(0, reserve - t.l) + max(0, reserve - t.l - k)
  end
  t.l = t.l + k
  G.leased = G.leased + k
end

-- --- rows -----------------------------------------------------------------------------------------

-- A row: flag, topic, rank, enqueued; then, when the flag is 1: expiry, result's time, key, unique text, group; body.
--@seldom
local function build(tn, rank, enqueued, body, expires, ttl, key, unique, group)
  if not (expires or ttl or key or unique or group) then
    return spack('>BI4dd', 0, tn, rank, enqueued) .. body
  end
  key, unique, group = key or '', unique or '', group or ''
  return spack('>BI4dd', 1, tn, rank, enqueued)
    .. spack('>ddHHH', expires or -1, ttl or -1, #key, #unique, #group) .. key .. unique .. group .. body
end

-- nil for what is not a row of ours.
local function read(id, rec)
  if #rec < 21 then return nil end
  local flag, tn, rank, enqueued = sunpack('>BI4dd', rec)
  local row = { id = id, tn = tn, rank = rank, enqueued = enqueued, rec = rec, at = 22 }
  if not (rank >= 0 and rank < 10 * SPAN) then return nil end
  if flag == 0 then return row end
  if flag ~= 1 or #rec < 43 then return nil end
  local expires, ttl, k, u, g, at = sunpack('>ddHHH', rec, 22)
  if #rec < at + k + u + g - 1 then return nil end
  if expires >= 0 then row.expires = expires end
  if ttl >= 0 then row.ttl = ttl end
  if k > 0 then row.key = rec:sub(at, at + k - 1) end
  if u > 0 then row.unique = rec:sub(at + k, at + k + u - 1) end
  if g > 0 then row.group = rec:sub(at + k + u, at + k + u + g - 1) end
  row.at = at + k + u + g
  return row
end

--@seldom
local function row_of(id)
  local rec = call('HGET', P .. 'm', id)
  if not rec then return nil end
  local row = read(id, rec)
  return row and topic(row.tn) and row
end

-- Failures, losses, interruptions and the last failure of a row; zeros before the first return.
local function counts(row, packed)
  if row.counted then return end
  row.counted = true
  if packed == nil then packed = exists('a') and call('HGET', P .. 'a', row.id) end
  if packed and packed ~= '' then
    row.f, row.l, row.i = sunpack('>I4I4I4', packed)
    row.failure = packed:sub(13)
    row.started = true
  else
    row.f, row.l, row.i, row.failure, row.started = 0, 0, 0, '', false
  end
end

--@seldom
local function count_up(row, kind, failure)
  counts(row)
  row[kind] = row[kind] + 1
  if failure and failure ~= '' then row.failure = failure end
end

--@seldom
local function save_counts(row)
  call('HSET', P .. 'a', row.id, spack('>I4I4I4', row.f, row.l, row.i) .. row.failure)
  there.a = true
end

-- --- gates: per-key limits and strict orders ------------------------------------------------------
-- `p:<topic>:<key>` has the rows of a key that wait and hold no slot, by rank; the first of them, as many as slots are
-- free, are in the lane, the others parked in `pz`. A slot is held by a row that runs, and in a strict order also by one
-- that has started and waits for its retry (`kl`, `kh` count both).

local function gate_of(t, key)
  if t.c.order == 'F' then return '' end
  if t.c.order or t.c.keys then return key end
  return nil
end

--@seldom
local function slots(t)
  if t.c.order then return 1 end
  return t.c.keys
end

--@seldom
local function gate_key(t, g) return P .. 'p:' .. t.n .. ':' .. g end

--@seldom
local function busy(t, g)
  if t.c.order == 'F' then return t.l + t.rh end
  local n = tonumber(call('HGET', P .. 'kl:' .. t.n, g)) or 0
  if t.c.order then n = n + (tonumber(call('HGET', P .. 'kh:' .. t.n, g)) or 0) end
  return n
end

--@seldom
local function tally(name, key, by)
  if call('HINCRBY', name, key, by) <= 0 then call('HDEL', name, key) end
end

-- A row that has started waits again (1), or does not any more (-1).
--@seldom
local function retrying(t, row, by)
  t.rh = t.rh + by
  if row.key then tally(P .. 'kh:' .. t.n, row.key, by) end
end

--@seldom
local function into_lane(t, id, rank, ready)
  call('ZADD', t.q, rank, id)
  t.w = t.w + 1
  t.new = true
  if ready then
    call('ZADD', P .. 'b:' .. t.n, ready, id)
    t.late = min(t.late or ready, ready)
  end
end

--@seldom
local function out_of_lane(t, id)
  if call('ZREM', t.q, id) == 0 then return false end
  call('ZREM', P .. 'b:' .. t.n, id)
  t.w = t.w - 1
  return true
end

--@seldom
local function park(t, id, rank)
  call('ZADD', P .. 'pz:' .. t.n, rank, id)
end

-- Let a due row wait: in its lane, or parked when its key is busy. `ready` nil: since it was enqueued.
--@seldom
local function enter(t, row, ready)
  if t.rg and t.rg ~= '2' then
    call('ZADD', P .. 'z:' .. t.n, row.rank, row.id)
    if ready then call('ZADD', P .. 'b:' .. t.n, ready, row.id) end
    return
  end
  local g = gate_of(t, row.key)
  if g then
    counts(row)
    if not (t.c.order and row.started) then
      local p = gate_key(t, g)
      local free = slots(t) - busy(t, g)
      call('ZADD', p, row.rank, row.id)
      if call('ZRANK', p, row.id) >= free then
        park(t, row.id, row.rank)
        return
      end
      local last = call('ZRANGE', p, free, free, 'WITHSCORES')
      if last[1] and out_of_lane(t, last[1]) then park(t, last[1], last[2]) end
    end
  end
  into_lane(t, row.id, row.rank, ready)
end

-- A slot of a key may be free: the best parked row takes it.
--@seldom
local function fill(t, g)
  if t.rg and t.rg ~= '2' then return end
  local free = slots(t) - busy(t, g)
  if free <= 0 then return end
  local next = call('ZRANGE', gate_key(t, g), free - 1, free - 1, 'WITHSCORES')
  if next[1] and call('ZREM', P .. 'pz:' .. t.n, next[1]) == 1 then
    into_lane(t, next[1], next[2], NOW)
  end
end

--@seldom
local function due_again(t)
  local first = call('ZRANGE', P .. 'd:' .. t.n, 0, 0, 'WITHSCORES')
  if first[1] then call('ZADD', P .. 'due', first[2], t.n) else call('ZREM', P .. 'due', t.n) end
end

--@seldom
local function put_later(t, row, due)
  call('ZADD', P .. 'd:' .. t.n, due, row.id)
  call('ZADD', P .. 'due', 'LT', due, t.n)
  alarm(due)
end

-- A lease value: call (8 bytes), 1 when the row is not plain, topic, the worker's number, its name.
--@seldom
local function lease_of(id)
  local value = call('HGET', P .. 'L', id)
  if not value then return nil end
  local flag, tn, wn, at = sunpack('>BI4I4', value, 9)
  return { call = value:sub(1, 8), flag = flag, tn = tn, wn = wn, worker = value:sub(at) }
end

--@seldom
local function unlease(t, row, lease)
  call('HDEL', P .. 'L', row.id)
  call('ZREM', P .. 'leases', row.id)
  call('SREM', P .. 'h:' .. lease.wn, row.id)
  if exists('cx') then call('SREM', P .. 'cx', row.id) end
  if row.key then tally(P .. 'kl:' .. t.n, row.key, -1) end
  hold(t, -1)
end

-- A row that runs is taken from its holder and runs again from `due` on.
--@seldom
local function give_back(t, row, lease, due)
  unlease(t, row, lease)
  save_counts(row)
  row.started = true
  retrying(t, row, 1)
  local g = gate_of(t, row.key)
  if g and not t.c.order then fill(t, g) end
  if due > NOW then put_later(t, row, due) else enter(t, row, due) end
  if g and t.c.order then fill(t, g) end
end

-- Take a row out of wherever it waits or runs; false: it is nowhere.
--@seldom
local function remove(t, row, lease)
  local g = gate_of(t, row.key)
  if lease then
    unlease(t, row, lease)
    if g then fill(t, g) end
    return true
  end
  counts(row)
  local at = 'lane'
  if not out_of_lane(t, row.id) then
    if call('ZREM', P .. 'd:' .. t.n, row.id) == 1 then
      at = 'later'
      due_again(t)
    elseif call('ZREM', P .. 'pz:' .. t.n, row.id) == 1 then
      at = 'parked'
    elseif t.rg and call('ZREM', P .. 'z:' .. t.n, row.id) == 1 then
      at = 'moving'
      call('ZREM', P .. 'b:' .. t.n, row.id)
    else
      at = nil
    end
  end
  if row.started then retrying(t, row, -1) end
  if t.rg == '1' then
    call('ZREM', gate_key(t, ''), row.id)
    if row.key then call('ZREM', gate_key(t, row.key), row.id) end
  elseif g then
    if at == 'lane' or at == 'parked' then call('ZREM', gate_key(t, g), row.id) end
    if at == 'lane' or (t.c.order and row.started) then fill(t, g) end
  end
  return at ~= nil
end

-- --- ends -----------------------------------------------------------------------------------------

-- The name of the hash that remembers ids which end now, with room for n more.
local function recent(n)
  if G.gen == 0 or NOW - G.gent >= GENERATION or NOW < G.gent or G.count >= MOST then
    G.gen, G.gent, G.count = G.gen + 1, NOW, 0
    call('HSET', P .. 'g', 'rct', NOW)
    call('UNLINK', P .. 'rc:' .. (G.gen - 4))
    call('HSET', P .. 'rc:' .. G.gen, '', 0)
    call('PEXPIRE', P .. 'rc:' .. G.gen, MEMORY + 2 * GENERATION)
  end
  G.count = G.count + n
  return P .. 'rc:' .. G.gen
end

-- Keep what is known of an end for `ttl` seconds; '' stands for nothing in every text.
--@seldom
local function keep(t, row, state, result, reason, attempt, ttl)
  local progress = exists('pg') and call('HGET', P .. 'pg', row.id) or ''
  call('SET', P .. 'r:' .. row.id,
    mpack({ state, t.name, attempt, reason, row.failure, progress, result and 1 or 0, result or '' }),
    'PX', string.format('%.0f', max(1, ceil(ttl * 1000))))
end

--@seldom
local function ttl_of(t, row, ttl) return ttl or row.ttl or t.c.ttl or 86400 end

--@seldom
local function told(id, state)
  if exists('aw') then
    local waiters = call('HGET', P .. 'aw', id)
    if waiters then
      call('HDEL', P .. 'aw', id)
      for waiter in waiters:gmatch('%S+') do
        call('RPUSH', P .. 'done:' .. waiter, id)
        call('PEXPIRE', P .. 'done:' .. waiter, 30000)
      end
    end
  end
  if exists('wt') then member_ended(id, state) end
end

-- Everything that points to a row that has ended.
--@seldom
local function gone(t, row)
  call('HDEL', P .. 'm', row.id)
  if exists('a') then call('HDEL', P .. 'a', row.id) end
  if exists('pg') then call('HDEL', P .. 'pg', row.id) end
  if row.expires then call('ZREM', P .. 'ex', row.id) end
  if row.unique and call('HGET', P .. 'u', row.unique) == row.id then call('HDEL', P .. 'u', row.unique) end
end

--@seldom
local function succeeded(t, row, lease, result, ttl)
  counts(row)
  t.ok = t.ok + 1
  remove(t, row, lease)
  local kept = result and ttl_of(t, row, ttl) or 0
  if kept > 0 then
    keep(t, row, 'S', result, '', row.f + row.l + row.i + 1, kept)
  end
  if kept < MEMORY / 1000 then call('HSET', recent(1), row.id, t.n) end
  gone(t, row)
  told(row.id, 'S')
end

--@seldom
local function cancelled(t, row, lease, ttl)
  counts(row)
  t.fl = t.fl + 1
  local attempt = row.f + row.l + row.i
  if lease and not row.given then attempt = attempt + 1 end
  remove(t, row, lease)
  local kept = max(MEMORY / 1000, ttl_of(t, row, ttl))
  if attempt == 0 and kept <= MEMORY / 1000 then
    call('HSET', recent(1), row.id, 'C' .. t.n) -- a purge must not fill the memory that it frees
  else
    keep(t, row, 'C', nil, '', attempt, kept)
  end
  gone(t, row)
  told(row.id, 'C')
end

-- --- dead letters ---------------------------------------------------------------------------------

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
    for _, id in ipairs(call('ZRANGE', key, 0, over - 1)) do forget_dead(id, t.n) end
  end
end

--@seldom
local function put_dead(t, id, letter)
  G.serial = G.serial + 1
  letter[10] = G.serial
  call('HSET', P .. 'dm', id, mpack(letter))
  call('ZADD', P .. 'da', G.serial, id)
  call('ZADD', P .. 'dz:' .. t.n, G.serial, id)
  call('ZADD', P .. 'gv', 'LT', NOW + ceil((t.c.keep or 1209600) * 1000), t.n)
  there.dm = true
  bound_dead(t, 10)
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
    call('HSET', P .. 'fw', G.serial, mpack({ row.id, letter }))
    there.fw = true
  elseif t.c.dead ~= 'D' then
    put_dead(t, row.id, letter)
  end
  gone(t, row)
  told(row.id, 'F')
end

-- --- what is known --------------------------------------------------------------------------------

-- Which of many ids would be repeats: a table of those.
local function known(ids)
  local seen = {}
  for at = 1, #ids, 500 do
    local last = min(at + 499, #ids)
    local function mark(values)
      for k = 1, #values do if values[k] then seen[ids[at + k - 1]] = true end end
    end
    mark(call('HMGET', P .. 'm', unpack(ids, at, last)))
    for gen = max(1, G.gen - 3), G.gen do
      mark(call('HMGET', P .. 'rc:' .. gen, unpack(ids, at, last)))
    end
    if exists('dm') then mark(call('HMGET', P .. 'dm', unpack(ids, at, last))) end
    local names = {}
    for k = at, last do names[#names + 1] = P .. 'r:' .. ids[k] end
    if call('EXISTS', unpack(names)) > 0 then
      for k = at, last do
        if call('EXISTS', P .. 'r:' .. ids[k]) == 1 then seen[ids[k]] = true end
      end
    end
  end
  return seen
end

-- The state of an id in one letter: W(aiting, delayed or running), S, F, C, or nil.
--@seldom
local function state_of(id)
  if fresh[id] or call('HEXISTS', P .. 'm', id) == 1 then return 'W' end
  local ended = call('GET', P .. 'r:' .. id)
  if ended then return munpack(ended)[1] end
  if exists('dm') and call('HEXISTS', P .. 'dm', id) == 1 then return 'F' end
  for gen = max(1, G.gen - 3), G.gen do
    local how = call('HGET', P .. 'rc:' .. gen, id)
    if how then return how:sub(1, 1) == 'C' and 'C' or 'S' end
  end
  return nil
end

-- --- publishing -----------------------------------------------------------------------------------
-- A draft: { id, topic's name, priority, key, delay, at, expires_in, expires_at, unique, unique_for, ttl, group, body }
-- with times in seconds, and false for what is not set.

--@seldom
local function holder_of(unique)
  return call('HGET', P .. 'u', unique) or call('GET', P .. 'uw:' .. unique)
end

local function flush()
  for at = 1, #M, 1000 do call('HSET', P .. 'm', unpack(M, at, min(at + 999, #M))) end
  M, fresh = {}, {}
end

--@seldom
local function accept(t, d)
  local id, key, unique, expires = d[1], d[4] or nil, d[9] or nil, nil
  G.seq = G.seq + 1
  t.e = t.e + 1
  local rank = (9 - d[3]) * SPAN + G.seq
  if unique then
    if d[10] then
      if d[10] > 0 then
        call('SET', P .. 'uw:' .. unique, id, 'PX', string.format('%.0f', max(1, ceil(d[10] * 1000))))
      end
    else
      call('HSET', P .. 'u', unique, id)
    end
  end
  if d[8] then
    expires = floor(d[8] * 1000)
    if d[7] then expires = min(expires, NOW + ceil(d[7] * 1000)) end
  elseif d[7] or t.c.expires then
    expires = NOW + ceil((d[7] or t.c.expires) * 1000)
  end
  local row = { id = id, tn = t.n, rank = rank, key = key, counted = true, started = false, f = 0, l = 0, i = 0,
    failure = '' }
  if expires then
    expires = max(0, expires)
    call('ZADD', P .. 'ex', expires, id)
    alarm(expires)
  end
  M[#M + 1] = id
  M[#M + 1] = build(t.n, rank, NOW, d[13], expires, d[11] or nil, key, unique, d[12] or nil)
  fresh[id] = true
  local due = NOW
  if d[6] then due = ceil(d[6] * 1000) elseif d[5] then due = NOW + ceil(d[5] * 1000) end
  if due > NOW then put_later(t, row, due) else enter(t, row, nil) end
  return row
end

-- Publish what accepted work brings with it: neither a full queue nor an undeclared topic refuses it.
--@seldom
local function follow(drafts)
  local ids = {}
  for k = 1, #drafts do ids[k] = drafts[k][1] end
  local seen = known(ids)
  for k = 1, #drafts do
    local d = drafts[k]
    if not seen[d[1]] and not (d[9] and holder_of(d[9])) then
      seen[d[1]] = true
      accept(topic(number_of(d[2])), d)
    end
  end
  flush()
end

-- --- groups ---------------------------------------------------------------------------------------
-- `gr:<id>` has members, callback, require_all, watched ids; `gp:`, `gf:` the members that are pending and that failed;
-- `wt` maps a watched id to pairs of group and member; `cb` a buried callback to its group.

--@seldom
local function forget_group(gid, info)
  info = info or call('HMGET', P .. 'gr:' .. gid, 'watched', 'callback')
  for _, id in ipairs(munpack(info[1])) do
    local packed = call('HGET', P .. 'wt', id)
    if packed then
      local left = {}
      for _, pair in ipairs(munpack(packed)) do if pair[1] ~= gid then left[#left + 1] = pair end end
      if #left > 0 then call('HSET', P .. 'wt', id, mpack(left)) else call('HDEL', P .. 'wt', id) end
    end
  end
  call('HDEL', P .. 'cb', munpack(info[2])[1])
  call('UNLINK', P .. 'gr:' .. gid, P .. 'gp:' .. gid, P .. 'gf:' .. gid)
end

--@seldom
local function group_over(id)
  if exists('cb') then
    local gid = call('HGET', P .. 'cb', id)
    if gid then forget_group(gid) end
  end
end

--@seldom
local function close_if_complete(gid)
  local info = call('HMGET', P .. 'gr:' .. gid, 'watched', 'callback', 'all', 'buried', 'members')
  if not info[1] or info[4] or call('EXISTS', P .. 'gp:' .. gid) == 1 then return end
  local d = munpack(info[2])
  local failures = call('SCARD', P .. 'gf:' .. gid)
  if state_of(d[1]) or failures == 0 or info[3] ~= '1' then
    forget_group(gid, info)
    follow({ d })
    return
  end
  call('HSET', P .. 'gr:' .. gid, 'buried', '1')
  call('HSET', P .. 'cb', d[1], gid)
  there.cb = true
  local names = {}
  for _, member in ipairs(munpack(info[5])) do
    if #names < 20 and call('SISMEMBER', P .. 'gf:' .. gid, member) == 1 then names[#names + 1] = member end
  end
  local said = "of group '" .. gid .. "' did not succeed: " .. table.concat(names, ', ')
  if failures > #names then said = said .. ' and ' .. (failures - #names) .. ' more' end
  local t = topic(number_of(d[2]))
  G.seq = G.seq + 1
  t.e = t.e + 1
  local rank = (9 - d[3]) * SPAN + G.seq
  local rec = build(t.n, rank, NOW, d[13], nil, d[11] or nil, d[4] or nil, d[9] or nil, d[12] or nil)
  local row = read(d[1], rec)
  row.counted, row.started, row.f, row.l, row.i, row.nowhere = true, false, 0, 0, 0, true
  row.failure = cjson.encode({ 'millgate.errors.TaskFailed', said, '' })
  bury(t, row, nil, 'MemberFailed')
  if call('HEXISTS', P .. 'dm', d[1]) == 0 and call('EXISTS', P .. 'gr:' .. gid) == 1 then forget_group(gid) end
end

--@seldom
local function note(gid, member, state)
  call('SREM', P .. 'gp:' .. gid, member)
  if state ~= 'S' then call('SADD', P .. 'gf:' .. gid, member) end
end

--@seldom
local function member_ended(id, state)
  local packed = call('HGET', P .. 'wt', id)
  if not packed then return end
  for _, pair in ipairs(munpack(packed)) do
    local gid, member = pair[1], pair[2]
    if call('EXISTS', P .. 'gr:' .. gid) == 1 and not (state == 'S' and id ~= member) then
      note(gid, member, state)
      close_if_complete(gid)
    end
  end
end

--@seldom
local function member_revived(id)
  local packed = exists('wt') and call('HGET', P .. 'wt', id)
  if not packed then return end
  for _, pair in ipairs(munpack(packed)) do
    local gid, member = pair[1], pair[2]
    local info = call('HMGET', P .. 'gr:' .. gid, 'callback', 'buried')
    if info[1] then
      call('SADD', P .. 'gp:' .. gid, member)
      call('SREM', P .. 'gf:' .. gid, member)
      if info[2] then
        local d = munpack(info[1])
        call('HDEL', P .. 'gr:' .. gid, 'buried')
        call('HDEL', P .. 'cb', d[1])
        forget_dead(d[1], number_of(d[2]))
        call('DEL', P .. 'r:' .. d[1])
      end
    end
  end
end

-- --- the index of topics that may be claimed from -------------------------------------------------

-- When the longest waiting row of a lane entered it; nil: the lane is empty.
--@seldom
local function oldest(t)
  local back = call('ZRANGE', P .. 'b:' .. t.n, 0, 0, 'WITHSCORES')
  local best, from = tonumber(back[2]), '-inf'
  for _ = 1, 10 do
    local page = call('ZRANGEBYSCORE', t.q, from, '+inf', 'WITHSCORES', 'LIMIT', 0, back[1] and 8 or 1)
    if not page[1] then break end
    for k = 1, #page, 2 do
      if not back[1] or not call('ZSCORE', P .. 'b:' .. t.n, page[k]) then
        local rec = call('HGET', P .. 'm', page[k])
        local row = rec and read(page[k], rec)
        if row and (not best or row.enqueued < best) then best = row.enqueued end
        break
      end
    end
    from = string.format('%.0f', (floor(tonumber(page[2]) / SPAN) + 1) * SPAN)
  end
  return best
end

local function score(t) return string.format('%.3f', (9 - (t.c.prio or 5)) * LEVEL + t.ps) end

-- Decide whether a topic competes; its row must be current.
local function arm(t)
  local limit = limit_of(t)
  local go = t.w > 0 and not t.hp and not t.c.paused and not t.rg and not (limit and t.l >= limit)
  if go and t.c.rcount then
    local have = tokens(t)
    if whole(have) < 1 then
      go = false
      local when = NOW + max(1, ceil((1 - have) * t.c.rper / t.c.rcount))
      call('ZADD', P .. 'later', when, t.n)
      alarm(when)
    end
  end
  if not go then
    call('ZREM', P .. 'active', t.n)
    if t.w == 0 then call('ZREM', P .. 'age', t.n) end
    t.live = false
    return
  end
  if t.w0 == 0 then
    local joined = tonumber(call('HGET', P .. 'g', 'v' .. (t.c.prio or 5))) or 0
    if t.ps < joined then t.ps = joined end
  end
  call('ZADD', P .. 'active', score(t), t.n)
  local boost = t.c.boost or 600
  if boost > 0 and (t.w0 == 0 or t.late or t.aged) then
    call('ZADD', P .. 'age', 'LT', (t.late or NOW) + ceil(boost * 1000), t.n)
  elseif boost <= 0 and t.aged then
    call('ZREM', P .. 'age', t.n)
  end
  t.live = true
end

local function ring(sid, token)
  local bell = P .. 'bell:' .. sid
  if call('EXISTS', bell) == 0 then call('RPUSH', bell, token) end
end

-- Wake one waiter of each subscription that takes one of these topics; `all`: whatever it takes, to look again.
local function ring_for(numbers, all)
  if G.suspended or (#numbers == 0 and not all) or (G.limit and G.leased >= G.limit) then return end
  local bells = call('HGETALL', P .. 'bells')
  for k = 1, #bells, 2 do
    local sid = bells[k]
    if NOW - tonumber(bells[k + 1]) > 60000 then
      call('HDEL', P .. 'bells', sid)
      call('HDEL', P .. 'bv', sid)
      call('UNLINK', P .. 'sub:' .. sid, P .. 'bell:' .. sid)
    elseif sid == '*' then
      if #numbers > 0 then ring(sid, 'work') end
    elseif all then
      ring(sid, 'look') -- a new topic: who takes it, only they know
    else
      for at = 1, #numbers, 500 do
        local takes = call('SMISMEMBER', P .. 'sub:' .. sid, unpack(numbers, at, min(at + 499, #numbers)))
        for n = 1, #takes do
          if takes[n] == 1 then
            ring(sid, 'work')
            break
          end
        end
      end
    end
  end
end

local function write_topic(t)
  local a = { P .. 't:' .. t.n }
  local function set(name, value)
    a[#a + 1] = name
    a[#a + 1] = value
  end
  if t.l ~= t.l0 then set('l', t.l) end
  if t.rh ~= t.rh0 then set('rh', t.rh) end
  if t.ps ~= t.ps0 then set('ps', string.format('%.3f', t.ps)) end
  if t.rated then
    set('tk', string.format('%.9f', t.tk))
    set('ts', t.ts)
  end
  if t.e ~= t.e0 then set('e', t.e) end
  if t.s ~= t.s0 then set('s', t.s) end
  if t.ok ~= t.ok0 then set('ok', t.ok) end
  if t.fl ~= t.fl0 then set('fl', t.fl) end
  if #a > 1 then call('HSET', unpack(a)) end
  t.e0, t.s0, t.ok0, t.fl0, t.rated = t.e, t.s, t.ok, t.fl, nil
  t.l0, t.rh0, t.ps0 = t.l, t.rh, t.ps
end

-- Bring `active` up to date with the topics that were touched.
local function settle_index()
  for _, t in pairs(T) do
    if t.arm or t.new or t.w ~= t.w0 or t.l ~= t.l1 then
      t.news = t.news or t.new or t.l < t.l1 or t.arm
      if t.arm or t.late or t.l ~= t.l1 or t.w0 == 0 or t.w == 0 or t.c.rcount then
        arm(t)
      else -- only longer or shorter: it competes or does not, as before
        local limit = limit_of(t)
        t.live = not (t.hp or t.c.paused or t.rg or (limit and t.l >= limit))
      end
      t.arm, t.new, t.late, t.aged, t.w0, t.l1 = nil, nil, nil, nil, t.w, t.l
    end
  end
end

-- Write what changed, and wake who waits for it. The last step of every verb that changes something.
local function finish(more)
  flush()
  settle_index()
  local numbers = {}
  for tn, t in pairs(T) do
    if t.live and (t.news or more) then numbers[#numbers + 1] = tn end
    write_topic(t)
  end
  local a, was = { P .. 'g' }, G.was
  local function set(name, value)
    if value ~= was[name] then
      a[#a + 1] = name
      a[#a + 1] = value
    end
  end
  set('inf', G.leased)
  set('ur', G.unmet)
  set('seq', G.seq)
  set('ser', G.serial)
  set('rcn', G.gen)
  set('al', G.alarm)
  set('rcc', G.count)
  for level, pass in pairs(G.passes) do set('v' .. level, pass) end
  if #a > 1 then call('HSET', unpack(a)) end
  if G.limit and (more or G.leased < was.inf) then -- a slot of the queue is anybody's
    numbers = call('ZRANGE', P .. 'active', 0, 99)
  end
  ring_for(numbers, G.grown)
end

-- --- time -----------------------------------------------------------------------------------------

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

-- Regating: a topic whose key limit or order changed lets all that waits pass its new gates, in steps, closed meanwhile.
-- First everything moves to `z` (rg = '1'), then from there back in by rank (rg = '2').
--@seldom
local function regate(t, budget)
  local z = P .. 'z:' .. t.n
  local function leave_gate(id)
    call('ZREM', gate_key(t, ''), id)
    local row = row_of(id)
    if row and row.key then call('ZREM', gate_key(t, row.key), id) end
  end
  if t.rg == '1' then
    for _, key in ipairs({ t.q, P .. 'pz:' .. t.n }) do
      local page = budget > 0 and call('ZPOPMIN', key, budget) or {}
      for k = 1, #page, 2 do
        call('ZADD', z, page[k + 1], page[k])
        leave_gate(page[k])
      end
      if key == t.q then t.w = t.w - #page / 2 end
      budget = budget - #page / 2
    end
    if budget <= 0 then return end
    t.rg = '2'
    call('HSET', P .. 't:' .. t.n, 'rg', '2')
  end
  local page = call('ZPOPMIN', z, budget)
  for k = 1, #page, 2 do
    local row = row_of(page[k])
    if row then enter(t, row, tonumber(call('ZSCORE', P .. 'b:' .. t.n, page[k]) or nil)) end
  end
  if call('EXISTS', z) == 0 then
    t.rg = false
    call('HDEL', P .. 't:' .. t.n, 'rg')
    call('SREM', P .. 'rgs', t.n)
    t.arm = true
  end
end

--@seldom
local function forget_workers()
  for _, name in ipairs(call('ZRANGEBYSCORE', P .. 'ws', '-inf', NOW - 90000, 'LIMIT', 0, 20)) do
    local fence = tonumber(call('HGET', P .. 'w:' .. name, 'fence') or nil)
    if not (fence and fence > NOW) then
      call('UNLINK', P .. 'w:' .. name)
      call('ZREM', P .. 'ws', name)
    end
  end
end

--@seldom
local function age_out_dead()
  for _, tn in ipairs(call('ZRANGEBYSCORE', P .. 'gv', '-inf', NOW, 'LIMIT', 0, 5)) do
    local t, key = topic(tonumber(tn)), P .. 'dz:' .. tn
    local keep_for, next = ceil((t.c.keep or 1209600) * 1000), nil
    bound_dead(t, 100)
    for _, id in ipairs(call('ZRANGE', key, 0, 99)) do
      local died = munpack(call('HGET', P .. 'dm', id))[3]
      if died + keep_for > NOW then
        next = died + keep_for
        break
      end
      forget_dead(id, t.n)
    end
    if call('EXISTS', key) == 1 then call('ZADD', P .. 'gv', next or NOW, tn) else call('ZREM', P .. 'gv', tn) end
  end
end

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

-- What time alone brings about; bounded, the rest waits for the next call.
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

-- --- settling -------------------------------------------------------------------------------------

-- Drafts in ARGV from `at` on: how many, then meta data and body of each.
--@seldom
local function drafts_at(at)
  local n, drafts = tonumber(ARGV[at]), {}
  at = at + 1
  for k = 1, n do
    local d = munpack(ARGV[at])
    d[13] = ARGV[at + 1]
    drafts[k] = d
    at = at + 2
  end
  return drafts, at
end

--@seldom
local function too_large(d)
  local tn = call('HGET', P .. 'tn', d[2])
  local t = tn and topic(tonumber(tn))
  local most = (t and t.c or munpack(call('HGET', P .. 'g', 'df'))).size or 262144
  if #d[13] > most then
    return redis.error_reply('MGSIZE ' .. d[1] .. ': ' .. #d[13] .. " bytes, topic '" .. d[2] .. "' takes " .. most)
  end
end

-- The settlements in ARGV from `at` on, as a list of operations; an error when a message that follows is too large.
local function settlements_at(at)
  local ops = {}
  while at <= #ARGV do
    local op = { kind = ARGV[at], call = ARGV[at + 1] }
    if op.kind == 'A' then
      op.from, op.to = at + 3, at + 2 + tonumber(ARGV[at + 2])
      at = op.to + 1
    else
      op.id = ARGV[at + 2]
      at = at + 3
      if op.kind == 'R' then
        if ARGV[at] == '1' then op.result = ARGV[at + 1] end
        op.ttl = tonumber(ARGV[at + 2])
        op.drafts, at = drafts_at(at + 3)
        for _, d in ipairs(op.drafts) do
          local refused = too_large(d)
          if refused then return nil, refused end
        end
      elseif op.kind == 'D' then
        op.delay, op.charge, op.failure = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2]
        at = at + 3
      elseif op.kind == 'B' then
        op.reason, op.failure = ARGV[at], ARGV[at + 1]
        at = at + 2
      end
    end
    ops[#ops + 1] = op
  end
  return ops
end

-- Many acknowledgements of one call, without results: the plain ones at once.
local function acknowledge(op, stale)
  local leases = call('HMGET', P .. 'L', unpack(ARGV, op.from, op.to))
  local plain, of, wn, value = {}, nil, nil, nil
  local odd = {} -- ids that somebody waits for, that a group counts, or that have more to be cleared away
  for _, name in ipairs({ 'pg', 'wt', 'aw' }) do
    if exists(name) then
      for k, v in ipairs(call('HMGET', P .. name, unpack(ARGV, op.from, op.to))) do odd[k] = odd[k] or v end
    end
  end
  if exists('cx') then
    for k, v in ipairs(call('SMISMEMBER', P .. 'cx', unpack(ARGV, op.from, op.to))) do odd[k] = odd[k] or v == 1 end
  end
  local function done()
    if #plain == 0 then return end
    local t = topic(of)
    call('HDEL', P .. 'L', unpack(plain))
    call('ZREM', P .. 'leases', unpack(plain))
    call('HDEL', P .. 'm', unpack(plain))
    call('SREM', P .. 'h:' .. wn, unpack(plain))
    local ended = {}
    for k = 1, #plain do
      ended[2 * k - 1] = plain[k]
      ended[2 * k] = of
    end
    call('HSET', recent(#plain), unpack(ended))
    hold(t, -#plain)
    t.ok = t.ok + #plain
    plain = {}
  end
  for k = 1, #leases do
    local lease, id = leases[k], ARGV[op.from + k - 1]
    if not lease or lease:sub(1, 8) ~= op.call then
      stale[#stale + 1] = id
    elseif odd[k] or lease:byte(9) ~= 0 then
      done()
      local row = row_of(id)
      if row then succeeded(topic(row.tn), row, lease_of(id)) else stale[#stale + 1] = id end
    else
      local same = lease:sub(9)
      if same ~= value then
        done()
        value = same
        of, wn = sunpack('>I4I4', lease, 10)
      end
      plain[#plain + 1] = id
    end
  end
  done()
end

local CHARGES = { F = 'f', L = 'l', N = 'i' }

local function carry_out(op, stale)
  if op.kind == 'A' then return acknowledge(op, stale) end
  local lease = lease_of(op.id)
  local row = lease and lease.call == op.call and row_of(op.id)
  if not row then
    stale[#stale + 1] = op.id
    return
  end
  local t = topic(row.tn)
  local marked = exists('cx') and call('SISMEMBER', P .. 'cx', op.id) == 1
  if op.kind == 'R' then
    -- the end comes first: it frees the unique text and the key that a follower may want
    succeeded(t, row, lease, op.result, op.ttl)
    if #op.drafts > 0 then follow(op.drafts) end
  elseif op.kind == 'X' then
    cancelled(t, row, lease)
  else
    count_up(row, op.kind == 'B' and 'f' or CHARGES[op.charge], op.failure)
    row.given = true
    if marked then
      cancelled(t, row, lease)
    elseif op.kind == 'B' then
      bury(t, row, lease, op.reason)
    else
      give_back(t, row, lease, NOW + ceil(op.delay * 1000))
    end
  end
end

-- Take a running message from its holder, charged to nobody; false: it does not run.
--@seldom
local function put_back(id)
  local lease = lease_of(id)
  local row = lease and row_of(id)
  if not row then return false end
  count_up(row, 'i')
  row.given = true
  if exists('cx') and call('SISMEMBER', P .. 'cx', id) == 1 then
    cancelled(topic(row.tn), row, lease)
  else
    give_back(topic(row.tn), row, lease, NOW)
  end
  return true
end

-- What the topic's own limits allow now.
local function allowed(t)
  local count, limit = t.w, limit_of(t)
  if limit then count = min(count, limit - t.l) end
  if count > 0 and t.c.rcount then count = min(count, whole(tokens(t))) end
  return max(0, count)
end

local function unmet(t) return max(0, (t.c.reserve or 0) - t.l) end

-- The topics in ARGV from `at` on: -1 for all, or how many and their numbers.
local function subscription_at(at)
  local n = tonumber(ARGV[at])
  if n < 0 then return nil, at + 1 end
  local numbers = {}
  for k = 1, n do numbers[k] = ARGV[at + k] end
  return numbers, at + n + 1
end
