-- begin: schedule's name, slot and the call's number, or '' each; chained topics of the group's callback; group or ''; the
-- batch's call, how many parts were staged, under which revision, how many messages; their ids; then pairs of a place and
-- the text that it wants. Decides as publish does, and leaves it to `step` to store them: until then nobody sees any.
-- Answers as publish does, the third being whether there are steps; 'stage' when what was staged is not good any more.
queue()
local schedule, slot, fires = ARGV[1], ARGV[2], ARGV[3] ~= ''
local over = fires and fired(schedule, slot, ARGV[3])
if over then return over end
local at = 5 + tonumber(ARGV[4])
for k = 5, at - 1 do
  local refused = unfit(ARGV[k])
  if refused then return refused end
end
local group
group, at = group_at(at)
local this, parts, count = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 3])
if tonumber(ARGV[at + 2]) ~= G.rev or call('HLEN', P .. 'part:' .. this) ~= parts then return { 'stage', {}, 0 } end
local function instead(answer)
  call('UNLINK', P .. 'part:' .. this) -- nobody needs what was staged
  return answer
end
at = at + 3
local ids, texts, some = {}, {}, {}
for k = 1, count do ids[k] = ARGV[at + k] end
for k = at + count + 1, #ARGV, 2 do
  texts[tonumber(ARGV[k])] = ARGV[k + 1]
  some[#some + 1] = ARGV[k + 1]
end
if group then
  local refused = unfit(group.callback[2], #group.callback[13], group.callback[1])
  if refused then return instead(refused) end
end
local doubles, double, stored = repeats(ids, texts, some)
if group and not as_assumed(group, ids, double) then return instead({ 'again', doubles, 0 }) end
local new = count - #doubles / 2
local refused = G.most and new > 0 and overfull(new)
if refused then return instead(refused) end

if new == 0 then parts = 0 end
if fires then fire(schedule, slot, ARGV[3]) end
if new == 0 and not group then
  if not fires then said_again() end
  return instead({ '', doubles, 0 })
end
local places = {}
for k = 1, #doubles, 2 do places[#places + 1] = doubles[k] end
begin('messages', this, parts, 'skip', mpack(places), 'group', group and mpack(group) or '',
  'older', group and mpack(older_members(group, stored)) or '')
return { '', doubles, 1 }
