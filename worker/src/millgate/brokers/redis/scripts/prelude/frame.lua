-- What every verb stands on. KEYS[1] is the queue's bare prefix, a key that never exists: a Cluster that is moving the
-- slot then answers ASK before anything runs, instead of failing half-way. Time is the server's, in milliseconds.
-- A verb is composed with the functions that it uses; those under `--@seldom` are made when one of them is called, since
-- making all of them would cost a short call more than its work. So they are called, never passed on as values.
local call, floor, ceil, min, max = redis.call, math.floor, math.ceil, math.min, math.max
local mpack, munpack, spack, sunpack = cmsgpack.pack, cmsgpack.unpack, struct.pack, struct.unpack
local P = KEYS[1]
local SCHEMA = '1'
local SPAN = 562949953421312 -- rank = (9 - priority) * SPAN + number of publication; the smallest runs first
local LEVEL = 1e14 -- score in `active` = (9 - level) * LEVEL + pass
local STEP = 1000 -- a start of weight w advances the pass by STEP / w; nobody is more than STEP behind the front
local MEMORY = 60000 -- ms for which an id that ended without a trace stays known
local GENERATION, MOST = 20000, 125000 -- a generation of such ids: ms, and number

local found = call('GET', P .. 'schema')
if found ~= SCHEMA then
  return redis.error_reply('MGSCHEMA ' .. (found or 'none'))
end
local instant = call('TIME')
local NOW = instant[1] * 1000 + floor(instant[2] / 1000)
local T, G = {}, nil -- topics that were touched, the queue's own row
local M = {} -- rows to be written: ids and rows in turn
local spent = 0 -- about how many microseconds of work this call has done for what it was not asked for, or was first
local A -- what accepted messages bring beside their rows, to be written with these
local there = {} -- whether a seldom used key exists
local LONG = ('-'):rep(65) -- a value that makes a small hash a table, in which nothing is looked for from the front
local SELDOM = { 'a', 'cx', 'pg', 'wt', 'aw', 'fw', 'cb', 'dm' }

-- A command that takes any number of pairs, in calls of up to 500 pairs.
local function spread(command, key, pairs_)
  for at = 1, #pairs_, 1000 do call(command, key, unpack(pairs_, at, min(at + 999, #pairs_))) end
end

-- Many fields of a hash that may be small: made a table before, lest each field passes all that are there.
local function fill_hash(key, pairs_)
  if #pairs_ > 100 then call('HSET', key, '', LONG) end
  spread('HSET', key, pairs_)
  if #pairs_ > 100 then call('HDEL', key, '') end
end

-- The first write decides whether a server without memory lets a script pass: a DEL may always.
local function freeing() call('DEL', P) end

local function queue()
  local v = call('HMGET', P .. 'g', 'rev', 'ql', 'mw', 'un', 'sus', 'inf', 'ur', 'seq', 'ser', 'beat', 'grace',
    'rcn', 'rct', 'tn', 'born', 'al', 'rcc')
  G = { rev = tonumber(v[1]) or 0, limit = tonumber(v[2]), most = tonumber(v[3]), reject = v[4] == '1',
    suspended = v[5] == '1', leased = tonumber(v[6]) or 0, unmet = tonumber(v[7]) or 0, seq = tonumber(v[8]) or 0,
    serial = tonumber(v[9]) or 0, beat = tonumber(v[10]) or 0, grace = tonumber(v[11]) or 0,
    gen = tonumber(v[12]) or 0, gent = tonumber(v[13]) or 0, topics = (v[15] or '') .. '.' .. (v[14] or '0'),
    alarm = tonumber(v[16]) or 0, count = tonumber(v[17]) or 0, passes = {} }
  G.was = { al = G.alarm, inf = G.leased, ur = G.unmet, seq = G.seq, ser = G.serial, rcn = G.gen, rcc = G.count }
end

-- Time alone changes something then: whoever comes by at that time has to tick.
local function alarm(when)
  if when < G.alarm then G.alarm = when end
end

local function exists(name)
  local known = there[name]
  if known == nil then
    if there.asked == nil then
      there.asked = true
      if call('EXISTS', P .. 'a', P .. 'cx', P .. 'pg', P .. 'wt', P .. 'aw', P .. 'fw', P .. 'cb', P .. 'dm') == 0 then
        for _, none in ipairs(SELDOM) do if there[none] == nil then there[none] = false end end
        if there[name] ~= nil then return there[name] end
      end
    end
    known = call('EXISTS', P .. name) == 1
    there[name] = known
  end
  return known
end
