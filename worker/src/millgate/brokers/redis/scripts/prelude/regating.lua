-- Regating: a topic whose key limit or order changed lets all that waits pass its new gates, in steps, closed meanwhile.
-- First everything moves to `z` (rg = '1'), then from there back in by rank (rg = '2').

--@seldom
local function regate(t, budget)
  local z = P .. 'z:' .. t.n
  local function leave_gate(id)
    call('ZREM', gate_key(t, ''), id)
    local row = row_of(id)
    if row and row.key then call('ZREM', gate_key(t, row.key), id) end
    if row and stands_back(t, id) then retrying(t, row, 1) end
  end
  if t.rg == '1' then
    for _, key in ipairs({ t.q, P .. 'pz:' .. t.n }) do
      local page = budget > 0 and call('ZPOPMIN', key, budget) or {}
      local moved, ids, since = {}, {}, {}
      for k = 1, #page, 2 do
        moved[k], moved[k + 1] = page[k + 1], page[k]
        since[k], since[k + 1] = NOW, page[k]
        ids[#ids + 1] = page[k]
      end
      fill_zset(z, moved)
      -- what a key held back could not have run before: its age begins
      if key ~= t.q then fill_zset(P .. 'b:' .. t.n, since) end
      fetch(ids)
      for _, id in ipairs(ids) do leave_gate(id) end
      if key == t.q then t.w = t.w - #page / 2 end
      budget = budget - #page / 2
    end
    if budget <= 0 then return end
    t.rg = '2'
    call('HSET', P .. 't:' .. t.n, 'rg', '2')
  end
  local page, ids = call('ZPOPMIN', z, budget), {}
  for k = 1, #page, 2 do ids[#ids + 1] = page[k] end
  if ids[1] then
    local ready, rows = call('ZMSCORE', P .. 'b:' .. t.n, unpack(ids)), {}
    call('ZREM', P .. 'b:' .. t.n, unpack(ids)) -- those that enter the lane have it again
    fetch(ids)
    for k, id in ipairs(ids) do
      local row = row_of(id)
      if row then
        row.due = tonumber(ready[k] or nil)
        rows[#rows + 1] = row
      end
    end
    approach(rows)
    for _, row in ipairs(rows) do
      if row.expires then
        counts(row)
        if not row.started then gather('ZADD', P .. 'ex', row.expires, row.id) end
      end
      enter(t, row, row.due)
    end
  end
  if call('EXISTS', z) == 0 then
    t.rg = false
    call('HDEL', P .. 't:' .. t.n, 'rg')
    call('SREM', P .. 'rgs', t.n)
    t.arm = true
  end
end
