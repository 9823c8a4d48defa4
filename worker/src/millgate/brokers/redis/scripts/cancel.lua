-- cancel: ids. Answers one word each.
freeing()
queue()
tick()
local out, strange = {}, {}
fetch(ARGV)
-- a callback that the end of one brings about was not there to be cancelled, wherever its id stands in the list
for _, id in ipairs(ARGV) do strange[id] = not row_of(id) and not state_of(id) end
for k = 1, #ARGV do
  local id = ARGV[k]
  local row = not strange[id] and row_of(id)
  if not row then
    out[k] = strange[id] and 'unknown' or 'finished'
  elseif call('HEXISTS', P .. 'L', id) == 1 then
    call('SADD', P .. 'cx', id)
    there.cx = true
    out[k] = 'signalled'
  else
    cancelled(topic(row.tn), row, nil)
    out[k] = 'removed'
  end
end
finish()
return out
