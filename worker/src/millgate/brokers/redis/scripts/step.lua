-- step: carries the batch on that is under way, by one of its parts, or ends it. Answers how many steps are left; where
-- there is no batch, it writes something, for those who ask after replicas.
--@often accept build claim_text expiry_of text_of line_up
freeing()
queue()
local b = call('HMGET', P .. 'batch', 'call', 'parts', 'at', 'kind', 'news', 'known')
if not b[1] then
  said_again()
  return 0
end
local parts, left = P .. 'part:' .. b[1], b[2] - b[3]

-- Store the messages of a part; what is duplicated is passed by. Its times count from the begin of the batch.
local function store()
  local more, skip = call('HMGET', P .. 'batch', 'now', 'skip'), {}
  for _, place in ipairs(munpack(more[2])) do skip[place] = true end
  NOW = tonumber(more[1])
  local place, at = ARGV[1], 2
  while at <= #ARGV do
    local run, t = run_at(at), nil
    for k = run.first, run.last, run.width do
      if not skip[place] then
        t = t or topic(number_of(run.name))
        take(t, run, k)
      end
      place = place + 1
    end
    at = run.last + run.width
  end
end

local function go_on()
  ARGV = munpack(call('HGET', parts, b[3] + 1))
  if b[4] == 'messages' then store() else obey(ARGV) end
  local numbers = save()
  call('HSET', P .. 'batch', 'at', b[3] + 1, 'news', b[5] .. table.concat(numbers, ' ') .. ' ')
end

local function conclude()
  local more = call('HMGET', P .. 'batch', 'group', 'older')
  if more[1] and more[1] ~= '' then open_group(munpack(more[1]), munpack(more[2])) end
  call('UNLINK', P .. 'batch', parts)
  finish()
  if b[4] == 'messages' then
    local numbers = {}
    for tn in b[5]:gmatch('%d+') do numbers[#numbers + 1] = tn end
    ring_for(numbers, G.topics ~= b[6])
  else
    ring_for(call('ZRANGE', P .. 'active', 0, 999), false)
  end
end

local done, why = pcall(left > 0 and go_on or conclude)
if not done then -- a part that cannot be stored must not hold up the queue for good
  call('UNLINK', P .. 'batch', parts)
  error(why)
end
return left
