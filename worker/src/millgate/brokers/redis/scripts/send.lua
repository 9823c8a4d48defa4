-- send: a run of one message, which brings no others with it. Answers the id that it duplicates; nil: it is stored.
--@often accept build state_of
--@seldom arm ring read_queue read_topic rest_of
queue()
local run = run_at(1)
local name, k = run.name, run.first
local id, unique = ARGV[k], run.U and ARGV[k + run.U]
local tn = call('HGET', P .. 'tn', name)
local t = tn and topic(tonumber(tn))
local c, refused = terms_of(name, t)
if refused then return refused end
local size, most = #ARGV[k + run.width - 1], size_of(c)
if size > most then return oversized(id, name, size, most) end
local holder = state_of(id) and id or unique and holder_of(unique)
if holder then
  said_again()
  return holder
end
refused = G.most and overfull(1)
if refused then return refused end
take(t or topic(number_of(name, true)), run, k)
finish()
return false
