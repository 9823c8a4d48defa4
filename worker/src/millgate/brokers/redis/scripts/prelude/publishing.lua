-- Publishing. A draft: { id, topic's name, priority, key, delay, at, expires_in, expires_at, unique, unique_for, ttl, group,
-- body } with times in seconds, and false for what is not set.

local MANY = 600 -- accepted messages of one call, those with a gate counted four times, that are let through at once

--@seldom
local function holder_of(unique)
  return A and A.held[unique] or call('HGET', P .. 'u', unique) or call('GET', P .. 'uw:' .. unique)
end

--@seldom
local function claim_text(unique, id, window)
  if not window then
    A.unique[#A.unique + 1] = unique
    A.unique[#A.unique + 1] = id
  elseif window > 0 then
    call('SET', P .. 'uw:' .. unique, id, 'PX', string.format('%.0f', max(1, ceil(window * 1000))))
  else
    return
  end
  A.held[unique] = id
end

--@seldom
local function expiry_of(t, d)
  local expires
  if d[8] then
    expires = floor(d[8] * 1000)
    if d[7] then expires = min(expires, NOW + ceil(d[7] * 1000)) end
  elseif d[7] or t.c.expires then
    expires = NOW + ceil((d[7] or t.c.expires) * 1000)
  end
  return expires and max(0, expires)
end

--@seldom
local function line_up(lists, t, score, id)
  local list = lists[t.n]
  if not list then
    list = {}
    lists[t.n] = list
  end
  local n = #list + 2
  list[n - 1], list[n] = score, id
  return n
end

-- Store a draft as a message. What it brings beside its row is gathered, and written by `flush`.
--@seldom
local function accept(t, d)
  local id, key, unique, expires = d[1], d[4] or nil, d[9] or nil, nil
  A = A or { expires = {}, unique = {}, held = {}, later = {}, due = {}, lanes = {}, gated = {}, keys = {} }
  G.seq = G.seq + 1
  t.e = t.e + 1
  local rank = (9 - d[3]) * SPAN + G.seq
  if unique then claim_text(unique, id, d[10]) end
  if d[7] or d[8] or t.c.expires then
    expires = expiry_of(t, d)
    line_up(A.expires, t, expires, id)
    alarm(expires)
  end
  local m = #M
  M[m + 1] = id
  M[m + 2] = build(t.n, rank, NOW, d[13], expires, d[11] or nil, key, unique, d[12] or nil)
  if ended[id] then ended[id] = nil end
  local due = NOW
  if d[6] then due = ceil(d[6] * 1000) elseif d[5] then due = NOW + ceil(d[5] * 1000) end
  if due > NOW then
    line_up(A.later, t, due, id)
    A.due[t.n] = min(A.due[t.n] or due, due)
  elseif t.rg or gate_of(t, key) then
    local n = line_up(A.gated, t, rank, id)
    if n == 2 then A.keys[t.n] = {} end
    A.keys[t.n][n / 2] = key or false
  else
    line_up(A.lanes, t, rank, id)
  end
end

-- More than pass their gates in one step: they wait before them, and the topic is closed until all have passed.
--@seldom
local function crowd(t, list)
  spread('ZADD', P .. 'z:' .. t.n, list)
  if not t.rg then
    t.rg, t.arm = '2', true
    call('HSET', P .. 't:' .. t.n, 'rg', '2')
  end
  call('SADD', P .. 'rgs', t.n)
  alarm(NOW)
  G.crowded = true
end

--@seldom
local function admit(count)
  local all = A
  A = nil
  spread('HSET', P .. 'u', all.unique)
  for tn, list in pairs(all.later) do
    spread('ZADD', P .. 'd:' .. tn, list)
    call('ZADD', P .. 'due', 'LT', all.due[tn], tn)
    alarm(all.due[tn])
  end
  for tn, list in pairs(all.lanes) do
    local t = T[tn]
    spread('ZADD', t.q, list)
    t.w, t.new = t.w + #list / 2, true
  end
  for tn, list in pairs(all.gated) do
    if count + 3 * #list / 2 > MANY then
      crowd(T[tn], list)
      all.expires[tn] = nil -- entered as they pass
    else
      for k, key in ipairs(all.keys[tn]) do
        local row = { id = list[2 * k], rank = list[2 * k - 1], key = key or nil, counted = true, started = false }
        enter(T[tn], row, nil)
      end
    end
  end
  for _, list in pairs(all.expires) do spread('ZADD', P .. 'ex', list) end
end

-- Write the rows of accepted messages, and let these wait.
local function flush()
  local count = #M / 2
  spread('HSET', P .. 'm', M)
  M = {}
  if A then admit(count) end
end

-- Publish what accepted work brings with it: neither a full queue nor an undeclared topic refuses it.
--@seldom
local function follow(drafts)
  local ids = {}
  for k = 1, #drafts do
    ids[k] = drafts[k][1]
    if drafts[k][9] then carry() end -- a text may have become free just now
  end
  local seen = known(ids)
  for k = 1, #drafts do
    local d = drafts[k]
    if not seen[d[1]] and not (d[9] and holder_of(d[9])) then
      seen[d[1]] = true
      accept(topic(number_of(d[2])), d)
    end
  end
  flush()
end

-- Drafts in ARGV from `at` on: how many, then meta data and body of each.
--@seldom
local function drafts_at(at)
  local n, drafts = tonumber(ARGV[at]), {}
  at = at + 1
  for k = 1, n do
    local d = munpack(ARGV[at])
    d[13] = ARGV[at + 1]
    drafts[k] = d
    at = at + 2
  end
  return drafts, at
end

--@seldom
local function too_large(id, name, size)
  local tn = call('HGET', P .. 'tn', name)
  local t = tn and topic(tonumber(tn))
  local most = (t and t.c or munpack(defaults())).size or 262144
  if size > most then
    return redis.error_reply('MGSIZE ' .. id .. ': ' .. size .. " bytes, topic '" .. name .. "' takes " .. most)
  end
end
