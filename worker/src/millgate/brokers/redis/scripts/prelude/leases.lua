-- Leases: what runs, and the ways from a holder back to where a message waits, or out of everything.

--@seldom
local function put_later(t, row, due)
  gather('ZADD', P .. 'd:' .. t.n, due, row.id)
  redue[t.n] = true
  alarm(due)
end

-- A lease value: call (8 bytes), 1 when the row is not plain, topic, the worker's number, its name.
--@seldom
local function lease_of(id, value)
  if freed[id] then return nil end
  value = value or call('HGET', P .. 'L', id)
  if not value then return nil end
  local flag, tn, wn, at = sunpack('>BI4I4', value, 9)
  return { call = value:sub(1, 8), flag = flag, tn = tn, wn = wn, worker = value:sub(at) }
end

--@seldom
local function unlease(t, row, lease)
  freed[row.id], row.ran = true, true
  gather('HDEL', P .. 'L', row.id)
  gather('ZREM', P .. 'leases', row.id)
  gather('SREM', P .. 'h:' .. lease.wn, row.id)
  if exists('cx') then gather('SREM', P .. 'cx', row.id) end
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
      redue[t.n], dirty = true, true
    elseif call('ZREM', P .. 'pz:' .. t.n, row.id) == 1 then
      at = 'parked'
    elseif t.rg and call('ZREM', P .. 'z:' .. t.n, row.id) == 1 then
      at = 'moving'
      call('ZREM', P .. 'b:' .. t.n, row.id)
    else
      at = nil
    end
  end
  if row.started and not stands_back(t, row.id) then retrying(t, row, -1) end
  if t.rg == '1' then
    call('ZREM', gate_key(t, ''), row.id)
    if row.key then call('ZREM', gate_key(t, row.key), row.id) end
  elseif g then
    if at == 'lane' or at == 'parked' then call('ZREM', gate_key(t, g), row.id) end
    if at == 'lane' or (t.c.order and row.started) then fill(t, g) end
  end
  return at ~= nil
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
