-- The last step of every verb that changes something: write what changed, and wake who waits for it.

local function finish(more)
  flush()
  carry()
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
