-- configure: replace, queue's policy or '', its fields packed, the call; then of each topic name, policy, packed policy,
-- and reserve. Answers the revision, and how many steps and topics are still to be carried out: topics that change, in
-- parts where they are many, and what waits and passes its new gates.
queue()
local replace, whole, this = ARGV[1] == '1', ARGV[2], ARGV[4]
local wanted, packed, reserves = {}, {}, {}
for k = 5, #ARGV, 4 do
  local name = ARGV[k]
  wanted[name], packed[name], reserves[name] = ARGV[k + 1], ARGV[k + 2], tonumber(ARGV[k + 3])
end
local function all_of(key)
  local flat, by = call('HGETALL', P .. key), {}
  for k = 1, #flat, 2 do by[flat[k]] = flat[k + 1] end
  return by
end
local stored, kept, leaves = all_of('cf'), all_of('rsv'), {}
local todo, fields, gone_ = {}, {}, {} -- todo: names and packed policies in turn
for name, policy in pairs(wanted) do
  if stored[name] ~= policy then
    todo[#todo + 1], todo[#todo + 2] = name, packed[name]
    fields[#fields + 1], fields[#fields + 2] = name, policy
  end
end
local default = call('HGET', P .. 'g', 'df')
local q = whole ~= '' and whole ~= (call('HGET', P .. 'g', 'cq') or '') and munpack(ARGV[3]) or nil
for name in pairs(replace and stored or {}) do
  if not wanted[name] then
    gone_[#gone_ + 1], leaves[name] = name, true
    todo[#todo + 1], todo[#todo + 2] = name, q and q.defaults or default
  end
end
local function unfinished() return call('SCARD', P .. 'rgs') + (overdue_dead() and 1 or 0) end
if not todo[1] and not q then return { G.rev, 0, unfinished() } end

local limit, reserved = G.limit, 0
if q then limit = q.limit end
for name, reserve in pairs(kept) do
  if not wanted[name] and not leaves[name] then reserved = reserved + tonumber(reserve) end
end
for _, reserve in pairs(reserves) do reserved = reserved + reserve end
if limit and reserved > limit then
  return redis.error_reply("MGINVALID topics reserve " .. reserved .. " slots, the queue's limit is " .. limit
    .. '; raise it, or reserve fewer')
end

if q then
  local function set(name, value)
    if value then call('HSET', P .. 'g', name, value) else call('HDEL', P .. 'g', name) end
  end
  set('ql', q.limit)
  set('mw', q.most)
  set('un', q.reject and '1')
  set('sus', q.suspended and '1')
  set('cq', whole)
  G.limit, G.most, G.reject, G.suspended = q.limit or false, q.most or false, q.reject or false, q.suspended or false
  if q.defaults ~= default then
    set('df', q.defaults)
    for name in pairs(all_of('tn')) do
      if not wanted[name] and not stored[name] then todo[#todo + 1], todo[#todo + 2] = name, q.defaults end
    end
  end
end
spread('HSET', P .. 'cf', fields)
spread('HDEL', P .. 'cf', gone_)
spread('HDEL', P .. 'rsv', gone_)
for name in pairs(wanted) do
  if reserves[name] then
    call('HSET', P .. 'rsv', name, reserves[name])
  elseif kept[name] then
    call('HDEL', P .. 'rsv', name)
  end
end
G.rev = call('HINCRBY', P .. 'g', 'rev', 1)
local steps = put_aside(this, todo)
if steps == 0 then
  obey(todo)
  finish()
  ring_for(call('ZRANGE', P .. 'active', 0, 999), false)
end
return { G.rev, steps, unfinished() }
