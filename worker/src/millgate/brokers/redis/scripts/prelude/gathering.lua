-- Gathering: what many rows change alike is carried out together, in few commands. Until then whoever looks must know of it:
-- `ended` and `freed` say which ids are gone and which have no holder any more, `counters` has what counts are by now.

local ended, freed, counters = {}, {}, {}
local dirty = false -- whether something is to be carried out
local gathered, redue = {}, {} -- command -> key -> members; topics whose delayed rows changed
local rows_known, counts_known = {}, {} -- id -> row, and counts, as they were read; false: there is none

local function gather(command, key, one, two)
  local by = gathered[command]
  if not by then
    by = {}
    gathered[command] = by
  end
  local list = by[key]
  if not list then
    list = {}
    by[key], dirty = list, true
  end
  list[#list + 1] = one
  if two ~= nil then list[#list + 1] = two end
end

-- Read the rows of many ids, and their counts, at once.
--@seldom
local function fetch(ids)
  for at = 1, #ids, 500 do
    local last = min(at + 499, #ids)
    local recs = call('HMGET', P .. 'm', unpack(ids, at, last))
    local counted = exists('a') and call('HMGET', P .. 'a', unpack(ids, at, last))
    for k = at, last do
      rows_known[ids[k]] = recs[k - at + 1]
      counts_known[ids[k]] = counted and counted[k - at + 1]
    end
  end
end

--@seldom
local function counts_of(name)
  local by = counters[name]
  if not by then
    by = { now = {}, was = {} }
    counters[name] = by
  end
  return by
end

--@seldom
local function counter(name, key)
  local by = counts_of(name)
  local n = by.now[key]
  if n == nil then
    n = tonumber(call('HGET', name, key)) or 0
    by.now[key], by.was[key] = n, n
  end
  return n, by
end

-- Read many counts at once.
--@seldom
local function count_ahead(name, keys)
  local by = counts_of(name)
  for at = 1, #keys, 500 do
    local values = call('HMGET', name, unpack(keys, at, min(at + 499, #keys)))
    for k, value in ipairs(values) do
      local key = keys[at + k - 1]
      if by.now[key] == nil then
        by.now[key] = tonumber(value) or 0
        by.was[key] = by.now[key]
      end
    end
  end
end

--@seldom
local function tally(name, key, by)
  local n, all = counter(name, key)
  all.now[key] = n + by
  dirty = true
end

--@seldom
local function carry_out_gathered()
  dirty = false
  for name, by in pairs(counters) do
    for key, n in pairs(by.now) do
      if n ~= by.was[key] then
        if n > 0 then gather('HSET', name, key, n) else gather('HDEL', name, key) end
        by.was[key] = n
      end
    end
  end
  for command, by in pairs(gathered) do
    for key, list in pairs(by) do
      if key == P .. 'a' and command == 'HSET' then
        fill_hash(key, list)
      elseif command == 'ZADD' then
        fill_zset(key, list)
      else
        spread(command, key, list)
      end
    end
  end
  gathered, dirty = {}, false
  for tn in pairs(redue) do
    local first = call('ZRANGE', P .. 'd:' .. tn, 0, 0, 'WITHSCORES')
    if first[1] then call('ZADD', P .. 'due', first[2], tn) else call('ZREM', P .. 'due', tn) end
  end
  redue = {}
  bound_all_dead()
end

local function carry()
  if dirty then carry_out_gathered() end
end
