-- replay: ids. Lets dead letters wait again; answers those that were there.
queue()
tick()
local out = {}
for k = 1, #ARGV do
  local id = ARGV[k]
  local packed = call('HGET', P .. 'dm', id)
  local letter = packed and munpack(packed)
  local row = letter and letter[12] == 0 and read(id, letter[13])
  if row then
    forget_dead({ id }, letter[14])
    call('DEL', P .. 'r:' .. id)
    local t = topic(letter[14])
    G.seq = G.seq + 1
    t.e = t.e + 1
    row.rank = floor(row.rank / SPAN) * SPAN + G.seq
    row.counted, row.started, row.f, row.l, row.i, row.failure = true, false, 0, 0, 0, ''
    if row.unique and not holder_of(row.unique) then call('HSET', P .. 'u', row.unique, id) end
    call('HSET', P .. 'm', id, build(t.n, row.rank, NOW, row.rec:sub(row.at), nil, row.ttl, row.key, row.unique, row.group))
    ended[id] = nil
    member_revived(id)
    enter(t, row, nil)
    out[#out + 1] = id
  end
end
finish()
return out
