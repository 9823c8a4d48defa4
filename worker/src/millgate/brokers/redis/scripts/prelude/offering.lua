-- Offering: what a batch of messages is checked for before any of it is stored, and what stands behind it.

-- Whether the slot of a schedule, or a later one, has fired: what to answer then.
--@seldom
local function fired(schedule, slot, this)
  local last = call('HGET', P .. 'cron', schedule)
  if not last or tonumber(slot) > tonumber(last) then return nil end
  said_again()
  return call('HGET', P .. 'cronc', schedule) == this and { '', {}, 0 } or {}
end

--@seldom
local function fire(schedule, slot, this)
  call('HSET', P .. 'cron', schedule, slot)
  call('HSET', P .. 'cronc', schedule, this)
end

-- A group that ARGV has at `at`, its callback's draft behind it; '' for none.
local function group_at(at)
  if ARGV[at] == '' then return nil, at + 1 end
  local group = munpack(ARGV[at])
  group.callback = munpack(ARGV[at + 1])
  group.callback[13] = ARGV[at + 2]
  return group, at + 3
end

-- Of ids in order: pairs of a place and the id that it duplicates, that id by its place, and which ids will be stored.
-- `texts` has the texts that places want, `some` those in a list.
local function repeats(ids, texts, some)
  local seen, held, doubles, double, stored = known(ids), holders(some), {}, {}, {}
  for place, id in ipairs(ids) do
    local text = texts[place]
    local holder = seen[id] and id or text and held[text]
    if holder then
      doubles[#doubles + 1], doubles[#doubles + 2] = place, holder
      double[place] = holder
    else
      seen[id], stored[id] = true, true
      if text then held[text] = id end
    end
  end
  return doubles, double, stored
end

-- Whether a group's members duplicate what its sender took them to.
--@seldom
local function as_assumed(group, ids, double)
  local real = {}
  for place, id in ipairs(ids) do
    if not double[place] then
      real[id] = id
    elseif real[id] == nil then
      real[id] = double[place]
    end
  end
  for id, is in pairs(real) do
    if is ~= (group[5][id] or id) then return false end
  end
  return true
end

-- The members of a group that are not new.
--@seldom
local function older_members(group, stored)
  local before = {}
  for _, member in ipairs(group[2]) do
    if not stored[member] then before[#before + 1] = member end
  end
  return before
end

-- Await the members of a group, some of which were there before; false: it has been there.
--@seldom
local function open_group(group, before)
  local gid, members, watched = group[1], group[2], group[4]
  if call('EXISTS', P .. 'gr:' .. gid) == 1 or state_of(group.callback[1]) then return false end
  call('HSET', P .. 'gr:' .. gid, 'members', mpack(members), 'callback', mpack(group.callback), 'all', group[3],
    'watched', mpack(watched[1]))
  for from = 1, #members, 1000 do
    call('SADD', P .. 'gp:' .. gid, unpack(members, from, min(from + 999, #members)))
  end
  watch(gid, watched[1], watched[2])
  for member, way in pairs(watched[3]) do call('HSET', P .. 'gr:' .. gid, 'way:' .. member, mpack(way)) end
  local known_ = before[1] and known(before) or {}
  for _, member in ipairs(before) do
    local state = known_[member] and state_of(member)
    if state and state ~= 'W' then note(gid, member, state) else look_along(gid, way_to(gid, member), 1) end
  end
  close_if_complete(gid)
  return true
end
