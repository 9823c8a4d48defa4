-- states: ids. Answers for each: '' when unknown, or letter, topic, attempt, reason, failure, progress, has result,
-- result, worker, packed. With a waiter's name and seconds before them: unless one is final, the waiter is told of ends.
freeing()
queue()
tick()
finish()
local waiter, seconds = ARGV[1], tonumber(ARGV[2])
local out, final, waits = {}, false, {}
for k = 3, #ARGV do
  local id = ARGV[k]
  local row = row_of(id)
  if row then
    counts(row)
    local t, lease = topic(row.tn), lease_of(id)
    local letter, attempt = 'W', row.f + row.l + row.i
    if lease then
      letter, attempt = 'R', attempt + 1
    elseif call('ZSCORE', P .. 'd:' .. t.n, id) then
      letter = 'D'
    end
    out[#out + 1] = { letter, t.name, attempt, '', row.failure, call('HGET', P .. 'pg', id) or '', 0, '',
      lease and lease.worker or '' }
    waits[#waits + 1] = id
  else
    local ended = call('GET', P .. 'r:' .. id)
    local dead = not ended and exists('dm') and call('HGET', P .. 'dm', id)
    if ended then
      out[#out + 1] = munpack(ended)
    elseif dead then
      local d = munpack(dead)
      out[#out + 1] = { 'F', d[1], d[8], d[2], d[4], d[11], 0, '' }
    else
      local tn
      for gen = max(1, G.gen - 3), G.gen do tn = tn or call('HGET', P .. 'rc:' .. gen, id) end
      if tn then
        local letter = tn:sub(1, 1) == 'C' and 'C' or 'S'
        out[#out + 1] = { letter, topic(tonumber(tn:match('%d+'))).name, 0, '', '', '', 0, '' }
      else
        out[#out + 1] = ''
        waits[#waits + 1] = id
      end
    end
    final = final or out[#out] ~= ''
  end
end
if waiter ~= '' and not final then
  for _, id in ipairs(waits) do
    local names = call('HGET', P .. 'aw', id)
    if not (names and names:find(waiter, 1, true)) then
      call('HSET', P .. 'aw', id, names and names .. ' ' .. waiter or waiter)
    end
    local ends = NOW + ceil(seconds * 1000)
    local other = tonumber(call('ZSCORE', P .. 'awx', id) or nil)
    if not other or other < ends then call('ZADD', P .. 'awx', ends, id) end
  end
end
return { out, exists('fw') and 1 or 0 }
