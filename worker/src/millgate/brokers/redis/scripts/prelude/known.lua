-- What is known of ids: of many, whether publishing them would repeat; of one, how it stands.

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
    for k = at, G.results > NOW and last or 0 do names[k - at + 1] = P .. 'r:' .. ids[k] end
    if names[1] and call('EXISTS', unpack(names)) > 0 then
      for k, name in ipairs(names) do
        if call('EXISTS', name) == 1 then seen[ids[at + k - 1]] = true end
      end
    end
  end
  return seen
end

-- The state of an id in one letter: W(aiting, delayed or running), S, F, C, or nil.
--@seldom
local function state_of(id)
  carry()
  if call('HEXISTS', P .. 'm', id) == 1 then return 'W' end
  local ended = G.results > NOW and call('GET', P .. 'r:' .. id)
  if ended then return munpack(ended)[1] end
  if there.dm ~= false and call('HEXISTS', P .. 'dm', id) == 1 then return 'F' end
  for gen = max(1, G.gen - 3), G.gen do
    local how = call('HGET', P .. 'rc:' .. gen, id)
    if how then return how:sub(1, 1) == 'C' and 'C' or 'S' end
  end
  return nil
end
