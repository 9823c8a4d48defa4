-- Topics: their rows, limits and tokens.

local function topic(tn)
  local t = T[tn]
  if t then return t end
  local v = call('HMGET', P .. 't:' .. tn, 'c', 'nm', 'l', 'ps', 'tk', 'ts', 'hp', 'rg', 'rh', 'e', 's', 'ok', 'fl')
  if not v[2] then return nil end
  local q = P .. 'q:' .. tn
  local w = call('ZCARD', q)
  t = { n = tn, raw = v[1], c = munpack(v[1]), name = v[2], l = tonumber(v[3]) or 0, ps = tonumber(v[4]) or 0,
    tk = tonumber(v[5]), ts = tonumber(v[6]), hp = v[7] == '1', rg = v[8], rh = tonumber(v[9]) or 0, q = q, w = w,
    e = tonumber(v[10]) or 0, s = tonumber(v[11]) or 0, ok = tonumber(v[12]) or 0, fl = tonumber(v[13]) or 0 }
  t.e0, t.s0, t.ok0, t.fl0 = t.e, t.s, t.ok, t.fl
  t.w0, t.l0, t.rh0, t.ps0, t.l1 = w, t.l, t.rh, t.ps, t.l
  T[tn] = t
  return t
end

-- The policy of topics that nobody has declared, packed.
--@seldom
local function defaults()
  G.defaults = G.defaults or call('HGET', P .. 'g', 'df')
  return G.defaults
end

-- The number of a topic, which is made when it is new; `absent` when somebody has looked already.
--@seldom
local function number_of(name, absent)
  local tn = not absent and call('HGET', P .. 'tn', name)
  if tn then return tonumber(tn) end
  tn = call('HINCRBY', P .. 'g', 'tn', 1)
  call('HSET', P .. 'tn', name, tn)
  call('HSET', P .. 't:' .. tn, 'c', defaults(), 'nm', name)
  G.topics, G.grown = (G.topics:match('^[^.]*')) .. '.' .. tn, true
  return tn
end

local function weight(t) return t.c.weight or 10 end

-- The topic's own limit: FIFO is one at a time.
local function limit_of(t)
  if t.c.order == 'F' then return 1 end
  return t.c.limit
end

local function tokens(t)
  local c = t.c
  local have = t.tk or c.rcap
  local since = t.ts or NOW
  if NOW > since then
    have = min(c.rcap, have + (NOW - since) * c.rcount / c.rper)
  end
  t.tk, t.ts, t.rated = have, max(NOW, since), true
  return have
end

local function whole(have) return floor(have + 1e-9) end

-- Leases of a topic grew by k: the queue's counts follow.
local function hold(t, k)
  local reserve = t.c.reserve
  if reserve then
    G.unmet = G.unmet - max(0, reserve - t.l) + max(0, reserve - t.l - k)
  end
  t.l = t.l + k
  G.leased = G.leased + k
end

local function write_topic(t)
  local a = { P .. 't:' .. t.n }
  local function set(name, value)
    a[#a + 1] = name
    a[#a + 1] = value
  end
  if t.l ~= t.l0 then set('l', t.l) end
  if t.rh ~= t.rh0 then set('rh', t.rh) end
  if t.ps ~= t.ps0 then set('ps', string.format('%.3f', t.ps)) end
  if t.rated then
    set('tk', string.format('%.9f', t.tk))
    set('ts', t.ts)
  end
  if t.e ~= t.e0 then set('e', t.e) end
  if t.s ~= t.s0 then set('s', t.s) end
  if t.ok ~= t.ok0 then set('ok', t.ok) end
  if t.fl ~= t.fl0 then set('fl', t.fl) end
  if #a > 1 then call('HSET', unpack(a)) end
  t.e0, t.s0, t.ok0, t.fl0, t.rated = t.e, t.s, t.ok, t.fl, nil
  t.l0, t.rh0, t.ps0 = t.l, t.rh, t.ps
end

-- What the topic's own limits allow now.
local function allowed(t)
  local count, limit = t.w, limit_of(t)
  if limit then count = min(count, limit - t.l) end
  if count > 0 and t.c.rcount then count = min(count, whole(tokens(t))) end
  return max(0, count)
end

local function unmet(t) return max(0, (t.c.reserve or 0) - t.l) end

-- The topics in ARGV from `at` on: -1 for all, or how many and their numbers.
local function subscription_at(at)
  local n = tonumber(ARGV[at])
  if n < 0 then return nil, at + 1 end
  local numbers = {}
  for k = 1, n do numbers[k] = ARGV[at + k] end
  return numbers, at + n + 1
end
