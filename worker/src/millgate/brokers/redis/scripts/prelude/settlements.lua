-- Settlements: read from the arguments, then carried out.

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
      if op.kind == 'R' or op.kind == 'C' then
        if ARGV[at] == '1' then op.result = ARGV[at + 1] end
        op.ttl = tonumber(ARGV[at + 2])
        op.drafts, at = drafts_at(at + 3)
        for _, d in ipairs(op.kind == 'R' and op.drafts or {}) do
          local refused = too_large(d[1], d[2], #d[13])
          if refused then return nil, refused end
        end
        op.kind = 'R' -- the sizes of a C have been looked at by a call before
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

local held = {} -- id -> its lease, as it was read for all settlements; false: there is none

-- Read the leases that settlements name, and what belongs to those that are more than plain.
local function look_up(ops)
  local ids, whole, more = {}, {}, {}
  for _, op in ipairs(ops) do
    if op.kind == 'A' then
      for k = op.from, op.to do ids[#ids + 1] = ARGV[k] end
    else
      ids[#ids + 1] = op.id
      more[op.id] = true
    end
  end
  local kept = { exists('pg') and 'pg', exists('wt') and 'wt', exists('aw') and 'aw' }
  for at = 1, #ids, 500 do
    local last = min(at + 499, #ids)
    local plain -- a lease that many have, if they were claimed together
    for k, lease in ipairs(call('HMGET', P .. 'L', unpack(ids, at, last))) do
      local id = ids[at + k - 1]
      held[id] = lease
      if lease and lease ~= plain then
        if lease:byte(9) ~= 0 then more[id] = true else plain = lease end
      end
    end
    for n = 1, 3 do
      if kept[n] then
        for k, v in ipairs(call('HMGET', P .. kept[n], unpack(ids, at, last))) do
          if v then more[ids[at + k - 1]] = true end
        end
      end
    end
    if exists('cx') then
      for k, v in ipairs(call('SMISMEMBER', P .. 'cx', unpack(ids, at, last))) do
        if v == 1 then more[ids[at + k - 1]] = true end
      end
    end
  end
  for id in pairs(more) do
    if held[id] then whole[#whole + 1] = id end
  end
  if whole[1] then look_closer(whole) end
  return more
end

--@seldom
local function look_closer(ids)
  local rows = {}
  fetch(ids)
  for _, id in ipairs(ids) do rows[#rows + 1] = row_of(id) end
  approach(rows)
end

-- Many acknowledgements of one call, without results: the plain ones at once.
local function acknowledge(op, more, stale)
  local plain, n, like, of, wn = {}, 0, nil, nil, nil -- like: their lease
  local function done()
    if n == 0 then return end
    local t, number, over = topic(of), tostring(of), {}
    call('HDEL', P .. 'L', unpack(plain))
    call('ZREM', P .. 'leases', unpack(plain))
    call('HDEL', P .. 'm', unpack(plain))
    call('SREM', P .. 'h:' .. wn, unpack(plain))
    for k = 1, n do
      held[plain[k]] = false
      over[2 * k - 1], over[2 * k] = plain[k], number
    end
    call('HSET', recent(n), unpack(over))
    hold(t, -n)
    t.ok, spent = t.ok + n, spent + 4 * n
    plain, n = {}, 0
  end
  for k = op.from, op.to do
    local id = ARGV[k]
    local lease = held[id]
    if not lease or lease ~= like and lease:sub(1, 8) ~= op.call then
      stale[#stale + 1] = id
    elseif more[id] then
      local row = row_of(id)
      if row then succeeded(topic(row.tn), row, lease_of(id, lease)) else stale[#stale + 1] = id end
      held[id], spent = false, spent + 16
    else
      if lease ~= like then
        done()
        like = lease
        of, wn = sunpack('>I4I4', lease, 10)
      end
      n = n + 1
      plain[n] = id
    end
  end
  done()
end

local CHARGES = { F = 'f', L = 'l', N = 'i' }

--@seldom
local function end_one(op, stale)
  local lease = held[op.id] and lease_of(op.id, held[op.id])
  local row = lease and lease.call == op.call and row_of(op.id)
  if not row then
    stale[#stale + 1] = op.id
    return
  end
  held[op.id], spent = false, spent + 20
  local t = topic(row.tn)
  local marked = exists('cx') and call('SISMEMBER', P .. 'cx', op.id) == 1
  if op.kind == 'R' then
    succeeded(t, row, lease, op.result, op.ttl, op.drafts)
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

-- Carry out settlements, in order; those whose lease is not theirs any more are stale.
local function carry_out(ops, stale)
  if not ops[1] then return end
  local more = look_up(ops)
  for _, op in ipairs(ops) do
    if op.kind == 'A' then acknowledge(op, more, stale) else end_one(op, stale) end
  end
  carry()
end
