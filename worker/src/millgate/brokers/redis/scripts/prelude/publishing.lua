-- Publishing. A draft: { id, topic's name, priority, key, delay, at, expires_in, expires_at, unique, unique_for, ttl, group,
-- body } with times in seconds, and false for what is not set.

--@seldom
local function holder_of(unique)
  return call('HGET', P .. 'u', unique) or call('GET', P .. 'uw:' .. unique)
end

--@seldom
local function accept(t, d)
  local id, key, unique, expires = d[1], d[4] or nil, d[9] or nil, nil
  G.seq = G.seq + 1
  t.e = t.e + 1
  local rank = (9 - d[3]) * SPAN + G.seq
  if unique then
    if d[10] then
      if d[10] > 0 then
        call('SET', P .. 'uw:' .. unique, id, 'PX', string.format('%.0f', max(1, ceil(d[10] * 1000))))
      end
    else
      call('HSET', P .. 'u', unique, id)
    end
  end
  if d[8] then
    expires = floor(d[8] * 1000)
    if d[7] then expires = min(expires, NOW + ceil(d[7] * 1000)) end
  elseif d[7] or t.c.expires then
    expires = NOW + ceil((d[7] or t.c.expires) * 1000)
  end
  local row = { id = id, tn = t.n, rank = rank, key = key, counted = true, started = false, f = 0, l = 0, i = 0,
    failure = '' }
  if expires then
    expires = max(0, expires)
    call('ZADD', P .. 'ex', expires, id)
    alarm(expires)
  end
  M[#M + 1] = id
  M[#M + 1] = build(t.n, rank, NOW, d[13], expires, d[11] or nil, key, unique, d[12] or nil)
  fresh[id] = true
  local due = NOW
  if d[6] then due = ceil(d[6] * 1000) elseif d[5] then due = NOW + ceil(d[5] * 1000) end
  if due > NOW then put_later(t, row, due) else enter(t, row, nil) end
  return row
end

-- Publish what accepted work brings with it: neither a full queue nor an undeclared topic refuses it.
--@seldom
local function follow(drafts)
  local ids = {}
  for k = 1, #drafts do ids[k] = drafts[k][1] end
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
local function too_large(d)
  local tn = call('HGET', P .. 'tn', d[2])
  local t = tn and topic(tonumber(tn))
  local most = (t and t.c or munpack(call('HGET', P .. 'g', 'df'))).size or 262144
  if #d[13] > most then
    return redis.error_reply('MGSIZE ' .. d[1] .. ': ' .. #d[13] .. " bytes, topic '" .. d[2] .. "' takes " .. most)
  end
end
