-- publish: chained topics; group or ''; runs of messages. Answers pairs of a place and the id that it duplicates, or,
-- when a member of the group duplicates another id than was assumed, 'again' and the pairs, nothing stored.
-- A run: topic, priority, how many, the letters of the fields that are set; then of each id, fields, body.
-- fire: the same behind a schedule's name, slot and the call's number; nil when the slot or a later one has fired, but
-- for the call that fired it.
queue()
-- letter of a field -> its place in a draft; those that are texts
local FIELDS = { [75] = 4, [68] = 5, [65] = 6, [69] = 7, [88] = 8, [85] = 9, [70] = 10, [84] = 11, [71] = 12 } -- KDAEXUFTG
local TEXTS = { [4] = true, [9] = true, [12] = true }
local schedule, slot = ARGV[1], ARGV[2]
if schedule ~= '' then
  local last = call('HGET', P .. 'cron', schedule)
  if last and tonumber(slot) <= tonumber(last) then
    if call('HGET', P .. 'cronc', schedule) == ARGV[3] then return { '', {}, 0 } end
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
local ids, names, prios, bodies = {}, {}, {}, {}
local runs, starts, wanted = {}, {}, {} -- of those that set more: their run, where they start; their unique texts
at = at + 1
if group then
  group.callback = munpack(ARGV[at])
  group.callback[13] = ARGV[at + 1]
  at = at + 2
end
while at <= #ARGV do
  local name, prio, n, set = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), ARGV[at + 3]
  local width, run = #set + 2, nil
  declared[name] = true
  at = at + 4
  if set ~= '' then
    run = { unique = set:find('U', 1, true) }
    for f = 1, #set do run[f] = FIELDS[set:byte(f)] end
  end
  for k = at, at + (n - 1) * width, width do
    local place = #ids + 1
    local id, body = ARGV[k], ARGV[k + width - 1]
    ids[place], names[place], prios[place], bodies[place] = id, name, prio, body
    if run then
      runs[place], starts[place] = run, k
      if run.unique then wanted[place] = ARGV[k + run.unique] end
    end
  end
  at = at + n * width
end
if group then declared[group.callback[2]] = true end

-- Everything is checked before anything is written.
local of, sizes, called = {}, {}, {}
for name in pairs(declared) do called[#called + 1] = name end
for from = 1, #called, 500 do
  local last = min(from + 499, #called)
  for n, tn in ipairs(call('HMGET', P .. 'tn', unpack(called, from, last))) do
    local name, t = called[from + n - 1], tn and topic(tonumber(tn))
    of[name] = t
    local c = t and t.c or munpack(defaults())
    sizes[name] = c.size or 262144
    if G.reject and not c.declared then
      return redis.error_reply('MGUNDECLARED ' .. name)
    end
  end
end
for k = 1, #ids do
  if #bodies[k] > sizes[names[k]] then
    return redis.error_reply(
      'MGSIZE ' .. ids[k] .. ': ' .. #bodies[k] .. " bytes, topic '" .. names[k] .. "' takes " .. sizes[names[k]])
  end
end
if group then
  local refused = too_large(group.callback[1], group.callback[2], #group.callback[13])
  if refused then return refused end
end
-- Who holds the texts that are wanted.
local function holders()
  local texts, held = {}, {}
  for _, text in pairs(wanted) do texts[#texts + 1] = text end
  for from = 1, #texts, 500 do
    local last = min(from + 499, #texts)
    local known_, windows = call('HMGET', P .. 'u', unpack(texts, from, last)), {}
    for k = from, last do
      held[texts[k]] = known_[k - from + 1] or nil
      windows[#windows + 1] = P .. 'uw:' .. texts[k]
    end
    if call('EXISTS', unpack(windows)) > 0 then
      for k = from, last do held[texts[k]] = held[texts[k]] or call('GET', P .. 'uw:' .. texts[k]) or nil end
    end
  end
  return held
end

local seen, held, doubles, new = known(ids), holders(), {}, 0
local real, stored = {}, {}
for k = 1, #ids do
  local id, text = ids[k], wanted[k]
  local holder = seen[id] and id or (text and held[text])
  if holder then
    doubles[#doubles + 1] = k
    doubles[#doubles + 1] = holder
    if real[id] == nil then real[id] = holder end
    names[k] = false
  else
    seen[id], real[id], stored[id] = true, id, true
    if text then held[text] = id end
    new = new + 1
  end
end
if group then
  for id, is in pairs(real) do
    if is ~= (group[5][id] or id) then return { 'again', doubles, 0 } end
  end
end
if G.most and new > 0 then
  local waiting = call('HLEN', P .. 'm') - G.leased
  if waiting + new > G.most then
    return redis.error_reply('MGFULL the queue holds ' .. waiting .. ' of at most ' .. G.most .. ' messages; ' .. new
      .. ' more do not fit, nothing of this call was stored')
  end
end

local draft, filled = {}, nil -- one table for all drafts: making one of each costs more than filling it

local function draft_of(place)
  local run, from = runs[place], starts[place]
  if filled ~= run or not run then
    for field = 4, 12 do draft[field] = false end
    filled = run
  end
  draft[1], draft[2], draft[3], draft[13] = ids[place], names[place], prios[place], bodies[place]
  if run then
    for f = 1, #run do
      local field, value = run[f], ARGV[from + f]
      draft[field] = TEXTS[field] and value or tonumber(value)
    end
  end
  return draft
end

local lanes = {}
for k = 1, #ids do
  local name = names[k]
  if name then
    local t = of[name]
    if not t then
      t = topic(number_of(name, true))
      of[name] = t
    end
    if runs[k] or t.rg or t.c.order == 'F' or t.c.expires then
      accept(t, draft_of(k))
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
  spread('ZADD', t.q, lane)
  t.w, t.e, t.new = t.w + #lane / 2, t.e + #lane / 2, true
end
flush()
if group and call('EXISTS', P .. 'gr:' .. group[1]) == 0 and not state_of(group.callback[1]) then
  local gid, members, pairs_of = group[1], group[2], group[4]
  call('HSET', P .. 'gr:' .. gid, 'members', mpack(members), 'callback', mpack(group.callback), 'all', group[3],
    'watched', mpack(pairs_of[1]))
  for from = 1, #members, 1000 do
    call('SADD', P .. 'gp:' .. gid, unpack(members, from, min(from + 999, #members)))
  end
  watch(gid, pairs_of[1], pairs_of[2])
  local before = {}
  for _, member in ipairs(members) do
    if not stored[member] then before[#before + 1] = member end
  end
  local ended = before[1] and known(before) or {}
  for _, member in ipairs(before) do
    local state = ended[member] and state_of(member)
    if state and state ~= 'W' then note(gid, member, state) end
  end
  close_if_complete(gid)
end
if schedule ~= '' then
  call('HSET', P .. 'cron', schedule, slot)
  call('HSET', P .. 'cronc', schedule, ARGV[3])
end
finish()
return { '', doubles, G.crowded and 1 or 0 }
