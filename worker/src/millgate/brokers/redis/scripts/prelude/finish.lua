-- The last step of every verb that changes something: write what changed, and wake who waits for it.

local function write_queue()
  local a, rest = { P .. 'g' }, G.rest
  put(a, 'inf', G.leased, G.leased0)
  put(a, 'seq', G.seq, G.seq0)
  put(a, 'rcn', G.gen, G.gen0)
  put(a, 'rs', G.results, G.results0)
  put(a, 'uw', G.windows, G.windows0)
  if rest then
    put(a, 'ur', G.unmet, rest.ur)
    put(a, 'ser', G.serial, rest.ser)
    put(a, 'al', G.alarm, rest.al)
    put(a, 'rcc', G.count, rest.rcc)
  end
  if G.passes then
    for level, pass in pairs(G.passes) do put(a, 'v' .. level, pass) end
  end
  if #a > 1 then call('HSET', unpack(a)) end
end

-- Write it; the topics of which there is news for those who wait. `more`: any that compete.
local function save(more)
  flush()
  carry()
  settle_index()
  local numbers = {}
  for tn, t in pairs(T) do
    if t.live and (t.news or more) then numbers[#numbers + 1] = tn end
    write_topic(t)
  end
  write_queue()
  return numbers
end

local function finish(more)
  local numbers = save(more)
  if G.limit and (more or G.leased < G.leased0) then -- a slot of the queue is anybody's
    numbers = call('ZRANGE', P .. 'active', 0, 99)
  end
  ring_for(numbers, G.grown)
end
