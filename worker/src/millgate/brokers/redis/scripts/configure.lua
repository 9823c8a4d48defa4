-- configure: replace, queue's policy or '', its fields packed, then name, policy and packed policy of each topic.
-- Answers the revision, and how many topics still let what waits pass their new gates, or forget dead letters, about.
queue()
local replace, whole = ARGV[1] == '1', ARGV[2]
local wanted, named = {}, {}
for k = 4, #ARGV, 3 do
  wanted[ARGV[k]] = ARGV[k + 1]
  named[ARGV[k]] = ARGV[k + 2]
end
local stored = {}
local flat = call('HGETALL', P .. 'cf')
for k = 1, #flat, 2 do stored[flat[k]] = flat[k + 1] end
local changed = whole ~= '' and whole ~= (call('HGET', P .. 'g', 'cq') or '')
for name, policy in pairs(wanted) do changed = changed or stored[name] ~= policy end
local leaving = {}
if replace then
  for name in pairs(stored) do
    if not wanted[name] then
      leaving[#leaving + 1] = name
      changed = true
    end
  end
end
if not changed then return { G.rev, call('SCARD', P .. 'rgs') + (overdue_dead() and 1 or 0) } end

local q = whole ~= '' and munpack(ARGV[3]) or nil
local limit, reserved = G.limit, 0
if q then limit = q.limit end
local gone_ = {}
for _, name in ipairs(leaving) do gone_[name] = true end
local kept = call('HGETALL', P .. 'rsv')
for k = 1, #kept, 2 do
  if not wanted[kept[k]] and not gone_[kept[k]] then reserved = reserved + tonumber(kept[k + 1]) end
end
for _, packed in pairs(named) do reserved = reserved + (munpack(packed).reserve or 0) end
if limit and reserved > limit then
  return redis.error_reply("MGINVALID topics reserve " .. reserved .. " slots, the queue's limit is " .. limit
    .. '; raise it, or reserve fewer')
end

local function gates(c) return (c.order or '') .. '/' .. (c.order and 1 or c.keys or '') end

local function apply(t, packed)
  local before, reserve = t.c, t.c.reserve or 0
  t.c = munpack(packed)
  G.unmet = G.unmet - max(0, reserve - t.l) + unmet(t)
  call('HSET', P .. 't:' .. t.n, 'c', packed)
  if before.rcount ~= t.c.rcount or before.rper ~= t.c.rper or before.rcap ~= t.c.rcap then
    t.tk, t.ts, t.rated = nil, nil, false
    call('HDEL', P .. 't:' .. t.n, 'tk', 'ts')
    call('ZREM', P .. 'later', t.n) -- put there again when it is armed
  end
  if gates(before) ~= gates(t.c) and (t.w > 0 or call('EXISTS', P .. 'pz:' .. t.n, P .. 'z:' .. t.n) > 0) then
    t.rg = '1'
    call('HSET', P .. 't:' .. t.n, 'rg', '1')
    call('SADD', P .. 'rgs', t.n)
    alarm(NOW)
    regate(t, 50)
  end
  if gates(t.c) ~= '/' then call('HSET', P .. 'kl:' .. t.n, '', LONG) end
  bound_dead(t, 100)
  if call('EXISTS', P .. 'dz:' .. t.n) == 1 then call('ZADD', P .. 'gv', NOW, t.n) end
  t.arm, t.aged = true, true
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
  if q.defaults ~= call('HGET', P .. 'g', 'df') then
    set('df', q.defaults)
    local all = call('HGETALL', P .. 'tn')
    for k = 1, #all, 2 do
      if not wanted[all[k]] and not (stored[all[k]] and not gone_[all[k]]) then
        apply(topic(tonumber(all[k + 1])), q.defaults)
      end
    end
  end
end
for _, name in ipairs(leaving) do
  call('HDEL', P .. 'cf', name)
  call('HDEL', P .. 'rsv', name)
  apply(topic(number_of(name)), call('HGET', P .. 'g', 'df'))
end
for name, policy in pairs(wanted) do
  if stored[name] ~= policy then
    call('HSET', P .. 'cf', name, policy)
    apply(topic(number_of(name)), named[name])
    local reserve = munpack(named[name]).reserve
    if reserve then call('HSET', P .. 'rsv', name, reserve) else call('HDEL', P .. 'rsv', name) end
  end
end
G.rev = call('HINCRBY', P .. 'g', 'rev', 1)
finish()
ring_for(call('ZRANGE', P .. 'active', 0, 999), false)
return { G.rev, call('SCARD', P .. 'rgs') + (overdue_dead() and 1 or 0) }
