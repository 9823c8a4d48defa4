-- Gates: per-key limits and strict orders.
-- `p:<topic>:<key>` has the rows of a key that wait and hold no slot, by rank; the first of them, as many as slots are
-- free, are in the lane, the others parked in `pz`. A slot is held by a row that runs, and in a strict order also by one
-- that has started and waits for its retry (`kl`, `kh` count both). Of more than one that has started, since the order came
-- late, all but one stand among the others (`kd`), and hold none.

local deserted = {} -- gates at which nobody waits, as far as somebody looked

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
  local n = counter(P .. 'kl:' .. t.n, g)
  if t.c.order then n = n + counter(P .. 'kh:' .. t.n, g) end
  return n
end

-- A row that has started waits again (1), or does not any more (-1).
--@seldom
local function retrying(t, row, by)
  t.rh = t.rh + by
  if row.key then tally(P .. 'kh:' .. t.n, row.key, by) end
end

-- Whether a row that has started holds no slot, though it waits in a strict order; from now on it may hold one.
--@seldom
local function stands_back(t, id)
  if t.others == 'unknown' then t.others = call('EXISTS', P .. 'kd:' .. t.n) == 1 end
  return t.others and call('SREM', P .. 'kd:' .. t.n, id) == 1
end

--@seldom
local function into_lane(t, id, rank, ready)
  call('ZADD', t.q, rank, id)
  t.w = t.w + 1
  t.new = true
  if ready then
    call('ZADD', P .. 'b:' .. t.n, ready, id)
    t.back = true
    t.late = min(t.late or ready, ready)
  end
end

--@seldom
local function out_of_lane(t, id)
  if call('ZREM', t.q, id) == 0 then return false end
  if t.back == 'unknown' then t.back = call('EXISTS', P .. 'b:' .. t.n) == 1 end
  if t.back then call('ZREM', P .. 'b:' .. t.n, id) end
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
    if ready then
      call('ZADD', P .. 'b:' .. t.n, ready, row.id)
      t.back = true
    end
    return
  end
  local g = gate_of(t, row.key)
  if g then
    counts(row)
    local holds = t.c.order and row.started
    if holds and busy(t, g) > 1 then -- it is counted itself
      holds, t.others = false, true
      retrying(t, row, -1)
      call('SADD', P .. 'kd:' .. t.n, row.id)
    end
    if not holds then
      local p = gate_key(t, g)
      local free = slots(t) - busy(t, g)
      call('ZADD', p, row.rank, row.id)
      deserted[p] = nil
      if free <= 0 or call('ZRANK', p, row.id) >= free then
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
  local p = gate_key(t, g)
  if deserted[p] then return end
  local free = slots(t) - busy(t, g)
  if free <= 0 then return end
  local next = call('ZRANGE', p, free - 1, free - 1, 'WITHSCORES')
  if next[1] and call('ZREM', P .. 'pz:' .. t.n, next[1]) == 1 then
    into_lane(t, next[1], next[2], NOW)
  end
end

-- Read ahead what the gates of many rows say.
--@seldom
local function approach(rows)
  local keys, names = {}, {}
  for _, row in ipairs(rows) do
    if row.key then
      local t = topic(row.tn)
      if not keys[t.n] then keys[t.n] = {} end
      table.insert(keys[t.n], row.key)
      local g = gate_of(t, row.key)
      if g then names[#names + 1] = gate_key(t, g) end
    end
  end
  for tn, list in pairs(keys) do
    count_ahead(P .. 'kl:' .. tn, list)
    if topic(tn).c.order then count_ahead(P .. 'kh:' .. tn, list) end
  end
  for at = 1, #names, 500 do
    local last = min(at + 499, #names)
    if call('EXISTS', unpack(names, at, last)) == 0 then
      for k = at, last do deserted[names[k]] = true end
    end
  end
end
