-- Groups: `gr:<id>` has members, callback, require_all, watched ids, and under `way:<member>` the steps of the chain that lead to
-- a member which is not its first; `gp:`, `gf:` the members that are pending and that
-- failed; `wt` maps a watched id to pairs of group and member; `cb` a buried callback to its group.

-- The pairs of a watched id. One that is itself the member, of one group, is kept as a zero byte and the group.
--@seldom
local function watched_for(id, packed)
  if not packed then return {} end
  if packed:byte(1) == 0 then return { { packed:sub(2), id } } end
  return munpack(packed)
end

--@seldom
local function pack_watched(id, list)
  if #list == 1 and list[1][2] == id then return '\0' .. list[1][1] end
  return mpack(list)
end

--@seldom
local function forget_group(gid, info)
  info = info or call('HMGET', P .. 'gr:' .. gid, 'watched', 'callback')
  local ids, over, others = munpack(info[1]), {}, {}
  for at = 1, #ids, 500 do
    local last = min(at + 499, #ids)
    for k, packed in ipairs(call('HMGET', P .. 'wt', unpack(ids, at, last))) do
      local id, left = ids[at + k - 1], {}
      for _, pair in ipairs(watched_for(id, packed)) do
        if pair[1] ~= gid then left[#left + 1] = pair end
      end
      if #left > 0 then
        others[#others + 1] = id
        others[#others + 1] = pack_watched(id, left)
      else
        over[#over + 1] = id
      end
    end
  end
  spread('HDEL', P .. 'wt', over)
  spread('HSET', P .. 'wt', others)
  call('HDEL', P .. 'cb', munpack(info[2])[1])
  call('UNLINK', P .. 'gr:' .. gid, P .. 'gp:' .. gid, P .. 'gf:' .. gid)
end

--@seldom
local function group_over(id)
  if exists('cb') then
    local gid = call('HGET', P .. 'cb', id)
    if gid then forget_group(gid) end
  end
end

--@seldom
local function close_if_complete(gid)
  if call('EXISTS', P .. 'gp:' .. gid) == 1 then return end
  local info = call('HMGET', P .. 'gr:' .. gid, 'watched', 'callback', 'all', 'buried', 'members')
  if not info[1] or info[4] then return end
  local d = munpack(info[2])
  local failures = call('SCARD', P .. 'gf:' .. gid)
  if state_of(d[1]) or failures == 0 or info[3] ~= '1' then
    forget_group(gid, info)
    follow({ d })
    return
  end
  call('HSET', P .. 'gr:' .. gid, 'buried', '1')
  call('HSET', P .. 'cb', d[1], gid)
  there.cb = true
  local names, named = {}, {} -- two members that were one stand here twice
  for _, member in ipairs(munpack(info[5])) do
    if #names < 20 and not named[member] and call('SISMEMBER', P .. 'gf:' .. gid, member) == 1 then
      names[#names + 1], named[member] = member, true
    end
  end
  local said = "members of group '" .. gid .. "' did not succeed: " .. table.concat(names, ', ')
  if failures > #names then said = said .. ' and ' .. (failures - #names) .. ' more' end
  local t = topic(number_of(d[2]))
  G.seq = G.seq + 1
  t.e = t.e + 1
  local rank = (9 - d[3]) * SPAN + G.seq
  local rec = build(t.n, rank, NOW, d[13], nil, d[11] or nil, d[4] or nil, d[9] or nil, d[12] or nil)
  local row = read(d[1], rec)
  row.counted, row.started, row.f, row.l, row.i, row.nowhere = true, false, 0, 0, 0, true
  row.failure = cjson.encode({ 'millgate.errors.TaskFailed', said, '' })
  bury(t, row, nil, 'MemberFailed')
  carry()
  if call('HEXISTS', P .. 'dm', d[1]) == 0 and call('EXISTS', P .. 'gr:' .. gid) == 1 then forget_group(gid) end
end

--@seldom
local function note(gid, member, state)
  call('SREM', P .. 'gp:' .. gid, member)
  if state ~= 'S' then call('SADD', P .. 'gf:' .. gid, member) end
end

-- The steps up to a member, itself the last.
--@seldom
local function way_to(gid, member)
  local packed = call('HGET', P .. 'gr:' .. gid, 'way:' .. member)
  return packed and munpack(packed) or { member }
end

-- Note what is known of a member already, going along its way from a place on to the step that is under way. A step that was
-- stored under its id before, or not at all since its text was taken, brings no other with it.
--@seldom
local function look_along(gid, way, from)
  for place = from, #way do
    local state = state_of(way[place])
    if state == 'W' then return end
    if state ~= 'S' or place == #way then return note(gid, way[#way], state) end
  end
end

-- The end of an earlier step of a member's chain.
--@seldom
local function step_ended(gid, member, id, state)
  local way = way_to(gid, member)
  for place, step in ipairs(way) do
    if step == id then
      if state == 'S' then look_along(gid, way, place + 1) else note(gid, member, state) end
      return
    end
    if state_of(step) == 'W' then return end -- it is another's, and may be forgotten when this chain comes to it
  end
end

-- What follows a message that succeeded is stored by then.
--@seldom
local function member_ended(id, state)
  local packed = call('HGET', P .. 'wt', id)
  if not packed then return end
  for _, pair in ipairs(watched_for(id, packed)) do
    local gid, member = pair[1], pair[2]
    if call('EXISTS', P .. 'gr:' .. gid) == 1 then
      if id == member then note(gid, member, state) else step_ended(gid, member, id, state) end
      close_if_complete(gid)
    end
  end
end

--@seldom
local function member_revived(id)
  local packed = exists('wt') and call('HGET', P .. 'wt', id)
  if not packed then return end
  for _, pair in ipairs(watched_for(id, packed)) do
    local gid, member = pair[1], pair[2]
    local info = call('HMGET', P .. 'gr:' .. gid, 'callback', 'buried')
    if info[1] then
      call('SADD', P .. 'gp:' .. gid, member)
      call('SREM', P .. 'gf:' .. gid, member)
      if info[2] then
        local d = munpack(info[1])
        call('HDEL', P .. 'gr:' .. gid, 'buried')
        call('HDEL', P .. 'cb', d[1])
        forget_dead({ d[1] }, number_of(d[2]))
        call('DEL', P .. 'r:' .. d[1])
      end
    end
  end
end

-- Watch ids for members of a group, pair by pair.
--@seldom
local function watch(gid, ids, members)
  local places, watched, lists = {}, {}, {}
  for k, id in ipairs(ids) do
    local place = places[id]
    if place then
      lists[place] = lists[place] or { { gid, id } }
      table.insert(lists[place], { gid, members[k] })
    else
      place = #watched + 1
      watched[place], places[id] = id, place
      if members[k] ~= id then lists[place] = { { gid, members[k] } } end
    end
  end
  local own, pairs_ = '\0' .. gid, {}
  for at = 1, #watched, 500 do
    local last = min(at + 499, #watched)
    for k, packed in ipairs(call('HMGET', P .. 'wt', unpack(watched, at, last))) do
      local place, id = at + k - 1, watched[at + k - 1]
      local value, list = own, lists[place]
      if packed or list then
        list = list or { { gid, id } }
        for _, pair in ipairs(watched_for(id, packed)) do list[#list + 1] = pair end
        value = pack_watched(id, list)
      end
      pairs_[2 * place - 1], pairs_[2 * place] = id, value
    end
  end
  fill_hash(P .. 'wt', pairs_)
  there.wt = true
end
