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
