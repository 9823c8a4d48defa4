-- publish: chained topics; group or ''; runs of messages. Answers pairs of a place and the id that it duplicates, or,
-- when a member of the group duplicates another id than was assumed, 'again' and the pairs, nothing stored.
-- fire: the same behind a schedule's name, slot and the call's number; nil when the slot or a later one has fired, but
-- for the call that fired it.
queue()
local schedule, slot = ARGV[1], ARGV[2]
if schedule ~= '' then
  local last = call('HGET', P .. 'cron', schedule)
  if last and tonumber(slot) <= tonumber(last) then
    if call('HGET', P .. 'cronc', schedule) == ARGV[3] then return { '', {} } end
    return false
  end
end
local at = 4
local declared = {} -- names that somebody may have to declare first
for _ = 1, tonumber(ARGV[at]) do
  at = at + 1
  declared[ARGV[at]] = true
end
at = at + 1
local group = ARGV[at] ~= '' and munpack(ARGV[at]) or nil
local ids, names, prios, bodies, drafts = {}, {}, {}, {}, {}
at = at + 1
if group then
  group.callback = munpack(ARGV[at])
  group.callback[13] = ARGV[at + 1]
  at = at + 2
end
while at <= #ARGV do
  if ARGV[at] == 'P' then
    local name, prio, n = ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
    declared[name] = true
    for k = at + 4, at + 3 + 2 * n, 2 do
      local place = #ids + 1
      ids[place], names[place], prios[place], bodies[place] = ARGV[k], name, prio, ARGV[k + 1]
    end
    at = at + 4 + 2 * n
  else
    local d, place = munpack(ARGV[at + 1]), #ids + 1
    d[13] = ARGV[at + 2]
    ids[place], names[place], prios[place], bodies[place], drafts[place] = d[1], d[2], d[3], d[13], d
    declared[d[2]] = true
    at = at + 3
  end
end
if group then declared[group.callback[2]] = true end

-- Everything is checked before anything is written.
local of, sizes = {}, {}
for name in pairs(declared) do
  local tn = call('HGET', P .. 'tn', name)
  local t = tn and topic(tonumber(tn))
  of[name] = t
  local c = t and t.c or munpack(call('HGET', P .. 'g', 'df'))
  sizes[name] = c.size or 262144
  if G.reject and not c.declared then
    return redis.error_reply('MGUNDECLARED ' .. name)
  end
end
for k = 1, #ids do
  if #bodies[k] > sizes[names[k]] then
    return redis.error_reply(
      'MGSIZE ' .. ids[k] .. ': ' .. #bodies[k] .. " bytes, topic '" .. names[k] .. "' takes " .. sizes[names[k]])
  end
end
if group then
  local refused = too_large(group.callback)
  if refused then return refused end
end
local seen, texts, doubles, new = known(ids), {}, {}, 0
local real = {}
for k = 1, #ids do
  local id, d = ids[k], drafts[k]
  local holder = seen[id] and id
  if not holder and d and d[9] then holder = texts[d[9]] or holder_of(d[9]) end
  if holder then
    doubles[#doubles + 1] = k
    doubles[#doubles + 1] = holder
    if real[id] == nil then real[id] = holder end
    drafts[k], names[k] = nil, false
  else
    seen[id], real[id] = true, id
    if d and d[9] then texts[d[9]] = id end
    new = new + 1
  end
end
if group then
  for id, assumed in pairs(group[5]) do
    if real[id] and real[id] ~= assumed then return { 'again', doubles } end
  end
end
if G.most and new > 0 then
  local waiting = call('HLEN', P .. 'm') - G.leased
  if waiting + new > G.most then
    return redis.error_reply('MGFULL the queue holds ' .. waiting .. ' of at most ' .. G.most .. ' messages; ' .. new
      .. ' more do not fit, nothing of this call was stored')
  end
end

local lanes = {}
for k = 1, #ids do
  local name = names[k]
  if name then
    local t = of[name]
    if not t then
      t = topic(number_of(name))
      of[name] = t
    end
    local d = drafts[k]
    if d or t.rg or t.c.order == 'F' or t.c.expires then
      accept(t, d or { ids[k], name, prios[k], false, false, false, false, false, false, false, false, false, bodies[k] })
    else
      G.seq = G.seq + 1
      local rank = (9 - prios[k]) * SPAN + G.seq
      M[#M + 1] = ids[k]
      M[#M + 1] = spack('>BI4dd', 0, t.n, rank, NOW) .. bodies[k]
      local lane = lanes[t.n]
      if not lane then
        lane = {}
        lanes[t.n] = lane
      end
      lane[#lane + 1] = rank
      lane[#lane + 1] = ids[k]
    end
  end
end
for tn, lane in pairs(lanes) do
  local t = T[tn]
  for from = 1, #lane, 1000 do call('ZADD', t.q, unpack(lane, from, min(from + 999, #lane))) end
  t.w, t.e, t.new = t.w + #lane / 2, t.e + #lane / 2, true
end
flush()
if group and call('EXISTS', P .. 'gr:' .. group[1]) == 0 and not state_of(group.callback[1]) then
  local gid, members, pairs_of = group[1], group[2], group[4]
  call('HSET', P .. 'gr:' .. gid, 'members', mpack(members), 'callback', mpack(group.callback), 'all', group[3],
    'watched', mpack(pairs_of[1]))
  for _, member in ipairs(members) do call('SADD', P .. 'gp:' .. gid, member) end
  for n, id in ipairs(pairs_of[1]) do
    local packed = call('HGET', P .. 'wt', id)
    local list = packed and munpack(packed) or {}
    list[#list + 1] = { gid, pairs_of[2][n] }
    call('HSET', P .. 'wt', id, mpack(list))
  end
  there.wt = true
  for _, member in ipairs(members) do
    local state = state_of(member)
    if state and state ~= 'W' then note(gid, member, state) end
  end
  close_if_complete(gid)
end
if schedule ~= '' then
  call('HSET', P .. 'cron', schedule, slot)
  call('HSET', P .. 'cronc', schedule, ARGV[3])
end
finish()
return { '', doubles }
