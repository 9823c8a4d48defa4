-- What every verb stands on. KEYS[1] is the queue's bare prefix, a key that never exists: a Cluster that is moving the
-- slot then answers ASK before anything runs, instead of failing half-way. Time is the server's, in milliseconds.
-- A verb is composed with the functions that it uses; those under `--@seldom` are made when one of them is called, since
-- making all of them would cost a short call more than its work. So they are called, never passed on as values.
local call = redis.call
local floor = math.floor
local ceil = math.ceil
local min = math.min
local max = math.max
local mpack = cmsgpack.pack
local munpack = cmsgpack.unpack
local spack = struct.pack
local sunpack = struct.unpack
local P = KEYS[1]
local ARGV = ARGV -- a step of a batch puts in its place what it finds stored
local SCHEMA = '1'
local SPAN = 562949953421312 -- rank = (9 - priority) * SPAN + number of publication; the smallest runs first
local LEVEL = 1e14 -- score in `active` = (9 - level) * LEVEL + pass
local STEP = 1000 -- a start of weight w advances the pass by STEP / w; nobody is more than STEP behind the front
local MEMORY = 60000 -- ms for which an id that ended without a trace stays known
local GENERATION = 20000 -- ms of one generation of such ids
local MOST = 125000 -- how many are in one

local found = call('GET', P .. 'schema')
if found ~= SCHEMA then
  return redis.error_reply('MGSCHEMA ' .. (found or 'none'))
end
local instant = call('TIME')
local NOW = instant[1] * 1000 + floor(instant[2] / 1000)
local T = {} -- topics that were touched
local G -- the queue's own row
local REST -- what makes such a row, and a topic's, read what it lacks
local M = {} -- rows to be written: ids and rows in turn
local rows = 0 -- how many these are
local spent = 0 -- about how many microseconds of work this call has done for what it was not asked for, or was first
local A -- what accepted messages bring beside their rows, to be written with these
local there = {} -- whether a seldom used key exists
local LONG = ('-'):rep(65) -- a value that makes a small hash a table, in which nothing is looked for from the front
local SELDOM = { 'a', 'cx', 'pg', 'wt', 'aw', 'fw', 'cb', 'dm' }

-- A command that takes any number of pairs, in calls of up to 500 pairs.
local function spread(command, key, pairs_)
  for at = 1, #pairs_, 1000 do call(command, key, unpack(pairs_, at, min(at + 999, #pairs_))) end
end

-- Many members of a hash or a sorted set that may be small: made a table before, lest each passes all that are there.
local function fill_hash(key, pairs_)
  if #pairs_ > 100 then call('HSET', key, '', LONG) end
  spread('HSET', key, pairs_)
  if #pairs_ > 100 then call('HDEL', key, '') end
end

local function fill_zset(key, pairs_)
  if #pairs_ > 100 then call('ZADD', key, 0, LONG) end
  spread('ZADD', key, pairs_)
  if #pairs_ > 100 then call('ZREM', key, LONG) end
end

-- The first write decides whether a server without memory lets a script pass: a DEL may always.
local function freeing() call('DEL', P) end

local function read_queue()
  local v = call('HMGET', P .. 'g', 'rev', 'ur', 'ser', 'beat', 'grace', 'rct', 'tn', 'born', 'al', 'rcc')
  G.rev, G.unmet, G.serial = tonumber(v[1]) or 0, tonumber(v[2]) or 0, tonumber(v[3]) or 0
  G.beat, G.grace, G.gent = tonumber(v[4]) or 0, tonumber(v[5]) or 0, tonumber(v[6]) or 0
  G.topics, G.alarm, G.count = (v[8] or '') .. '.' .. (v[7] or '0'), tonumber(v[9]) or 0, tonumber(v[10]) or 0
  G.rest = { ur = G.unmet, ser = G.serial, al = G.alarm, rcc = G.count }
end

local function read_topic(t)
  local v = call('HMGET', P .. 't:' .. t.n, 'nm', 'ps', 'tk', 'ts', 'rh', 's', 'ok', 'fl', 'dp')
  t.name, t.ps, t.tk, t.ts = v[1], tonumber(v[2]) or 0, tonumber(v[3]), tonumber(v[4])
  t.rh, t.s, t.ok, t.fl = tonumber(v[5]) or 0, tonumber(v[6]) or 0, tonumber(v[7]) or 0, tonumber(v[8]) or 0
  t.dp = tonumber(v[9]) or 0
  t.rest = { ps = t.ps, rh = t.rh, s = t.s, ok = t.ok, fl = t.fl, dp = t.dp }
end

-- The fields of the queue's row, or of a topic's, that few calls need: read when one asks for the first of them.
local function rest_of(row, name)
  setmetatable(row, nil)
  if row == G then read_queue() else read_topic(row) end
  return row[name]
end

-- The queue's row; `results` and `windows` say until when there may be keys of those. What it does not have is false, never nil, which would be looked for in the rest.
local function queue()
  local v = call('HMGET', P .. 'g', 'ql', 'mw', 'un', 'sus', 'inf', 'seq', 'rcn', 'rs', 'uw')
  local leased, seq, gen = tonumber(v[5]) or 0, tonumber(v[6]) or 0, tonumber(v[7]) or 0
  local results, windows = tonumber(v[8]) or 0, tonumber(v[9]) or 0
  G = { limit = tonumber(v[1]) or false, most = tonumber(v[2]) or false, reject = v[3] == '1', suspended = v[4] == '1',
    leased = leased, seq = seq, gen = gen, results = results, windows = windows, leased0 = leased, seq0 = seq, gen0 = gen,
    results0 = results, windows0 = windows, rest = false, grown = false, crowded = false, defaults = false, passes = false }
  REST = {
    __index = function(row, name) return rest_of(row, name) end,
    -- what is set before it was read must not be read over
    __newindex = function(row, name, value)
      rest_of(row, name)
      row[name] = value
    end,
  }
  setmetatable(G, REST)
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
