-- Topics: their rows, limits and tokens.

-- What it does not have is false, never nil, which would look for it in the rest.
local function topic(tn)
  local t = T[tn]
  if t then return t end
  local v = call('HMGET', P .. 't:' .. tn, 'c', 'l', 'hp', 'rg', 'e')
  if not v[1] then return nil end
  local q = P .. 'q:' .. tn
  local w, l, e = call('ZCARD', q), tonumber(v[2]) or 0, tonumber(v[5]) or 0
  t = { n = tn, c = munpack(v[1]), l = l, hp = v[3] == '1', rg = v[4], e = e, q = q, w = w, e0 = e, l0 = l, w0 = w, l1 = l,
    rest = false, rated = false, lane = false, lanes = 0, new = false, arm = false, late = false, aged = false,
    news = false, live = false, back = 'unknown', others = 'unknown' }
  setmetatable(t, REST)
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
  local since = min(t.ts or NOW, NOW) -- a clock that was set back owes nobody the time until then
  if NOW > since then
    have = min(c.rcap, have + (NOW - since) * c.rcount / c.rper)
  end
  t.tk, t.ts, t.rated = have, NOW, true
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

-- Add a field to a row's list of those that are written, if it has changed.
local function put(list, name, value, before)
  if value ~= before then
    local n = #list
    list[n + 1], list[n + 2] = name, value
  end
end

local function write_topic(t)
  local a, rest = { P .. 't:' .. t.n }, t.rest
  put(a, 'l', t.l, t.l0)
  put(a, 'e', t.e, t.e0)
  t.l0, t.e0 = t.l, t.e
  if rest then
    put(a, 'rh', t.rh, rest.rh)
    put(a, 's', t.s, rest.s)
    put(a, 'ok', t.ok, rest.ok)
    put(a, 'fl', t.fl, rest.fl)
    put(a, 'dp', t.dp, rest.dp)
    if t.ps ~= rest.ps then put(a, 'ps', string.format('%.3f', t.ps)) end
    if t.rated then
      put(a, 'tk', string.format('%.9f', t.tk))
      put(a, 'ts', t.ts)
    end
    rest.rh, rest.s, rest.ok, rest.fl, rest.dp, rest.ps, t.rated = t.rh, t.s, t.ok, t.fl, t.dp, t.ps, false
  end
  if #a > 1 then call('HSET', unpack(a)) end
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
