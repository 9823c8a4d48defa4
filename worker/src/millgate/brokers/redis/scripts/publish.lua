-- publish: chained topics; group or ''; runs of messages. Answers pairs of a place and the id that it duplicates, or,
-- when a member of the group duplicates another id than was assumed, 'again' and the pairs, nothing stored.
-- fire: the same behind a schedule's name, slot and the call's number; nil when the slot or a later one has fired, but
-- for the call that fired it.
--@often accept build claim_text expiry_of text_of line_up
queue()
local schedule, slot, fires = ARGV[1], ARGV[2], ARGV[3] ~= ''
if fires then
  local last = call('HGET', P .. 'cron', schedule)
  if last and tonumber(slot) <= tonumber(last) then
    said_again()
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
at = at + 1
if group then
  group.callback = munpack(ARGV[at])
  group.callback[13] = ARGV[at + 1]
  declared[group.callback[2]] = true
  at = at + 2
end
local runs = {}
while at <= #ARGV do
  local run = run_at(at)
  runs[#runs + 1], declared[run.name] = run, true
  at = run.last + run.width
end

-- Everything is checked before anything is written.
local of, terms, called = {}, {}, {}
for name in pairs(declared) do called[#called + 1] = name end
for from = 1, #called, 500 do
  local last = min(from + 499, #called)
  for n, tn in ipairs(call('HMGET', P .. 'tn', unpack(called, from, last))) do
    local name, refused = called[from + n - 1], nil
    of[name] = tn and topic(tonumber(tn))
    terms[name], refused = terms_of(name, of[name])
    if refused then return refused end
  end
end
local ids, texts, some = {}, {}, {} -- some: the texts that are wanted, in a list
local count = 0
for _, run in ipairs(runs) do
  local most, U, body = size_of(terms[run.name]), run.U, run.width - 1
  for k = run.first, run.last, run.width do
    count = count + 1
    ids[count] = ARGV[k]
    if #ARGV[k + body] > most then return oversized(ARGV[k], run.name, #ARGV[k + body], most) end
    if U then
      texts[count] = ARGV[k + U]
      some[#some + 1] = ARGV[k + U]
    end
  end
end
if group then
  local refused = too_large(group.callback[1], group.callback[2], #group.callback[13])
  if refused then return refused end
end

local seen, held, doubles, double = known(ids), holders(some), {}, {}
local real, stored = {}, {}
for place, id in ipairs(ids) do
  local text = texts[place]
  local holder = seen[id] and id or text and held[text]
  if holder then
    doubles[#doubles + 1], doubles[#doubles + 2] = place, holder
    double[place] = true
  else
    seen[id] = true
    if text then held[text] = id end
  end
  if group then
    if not holder then
      real[id], stored[id] = id, true
    elseif real[id] == nil then
      real[id] = holder
    end
  end
end
if group then
  for id, is in pairs(real) do
    if is ~= (group[5][id] or id) then return { 'again', doubles, 0 } end
  end
end
local new = count - #doubles / 2
local stores = new > 0 or fires
local refused = G.most and new > 0 and overfull(new)
if refused then return refused end

local place = 0
for _, run in ipairs(runs) do
  local t = of[run.name]
  for k = run.first, run.last, run.width do
    place = place + 1
    if not double[place] then
      if not t then
        t = topic(number_of(run.name, true))
        of[run.name] = t
      end
      take(t, run, k)
    end
  end
end
flush()
if group and call('EXISTS', P .. 'gr:' .. group[1]) == 0 and not state_of(group.callback[1]) then
  local gid, members, pairs_of = group[1], group[2], group[4]
  stores = true
  call('HSET', P .. 'gr:' .. gid, 'members', mpack(members), 'callback', mpack(group.callback), 'all', group[3],
    'watched', mpack(pairs_of[1]))
  for from = 1, #members, 1000 do
    call('SADD', P .. 'gp:' .. gid, unpack(members, from, min(from + 999, #members)))
  end
  watch(gid, pairs_of[1], pairs_of[2])
  for member, way in pairs(pairs_of[3]) do call('HSET', P .. 'gr:' .. gid, 'way:' .. member, mpack(way)) end
  local before = {}
  for _, member in ipairs(members) do
    if not stored[member] then before[#before + 1] = member end
  end
  local known_ = before[1] and known(before) or {}
  for _, member in ipairs(before) do
    local state = known_[member] and state_of(member)
    if state and state ~= 'W' then note(gid, member, state) else look_along(gid, way_to(gid, member), 1) end
  end
  close_if_complete(gid)
end
if fires then
  call('HSET', P .. 'cron', schedule, slot)
  call('HSET', P .. 'cronc', schedule, ARGV[3])
end
if not stores then said_again() end
finish()
return { '', doubles, G.crowded and 1 or 0 }
