-- publish: schedule's name, slot and the call's number, or '' each; chained topics; group or ''; runs of messages. Answers
-- '', pairs of a place and the id that it duplicates, and whether some wait before their gates; or, when a member of the
-- group duplicates another id than was assumed, 'again' and the pairs, nothing stored. Nothing at all when the slot or a
-- later one has fired, but for the call that fired it.
--@often accept build claim_text expiry_of text_of line_up
queue()
local schedule, slot, fires = ARGV[1], ARGV[2], ARGV[3] ~= ''
local over = fires and fired(schedule, slot, ARGV[3])
if over then return over end
local at = 4
local declared = {} -- names that somebody may have to declare first
for _ = 1, tonumber(ARGV[at]) do
  at = at + 1
  declared[ARGV[at]] = true
end
local group
group, at = group_at(at + 1)
if group then declared[group.callback[2]] = true end
local runs = {}
while at <= #ARGV do
  local run = run_at(at)
  runs[#runs + 1], declared[run.name] = run, true
  at = run.last + run.width
end

-- Everything is checked before anything is written.
local of, terms, called = {}, {}, {}
for name in pairs(declared) do called[#called + 1] = name end
for from = 1, #called, 500 do
  local last = min(from + 499, #called)
  for n, tn in ipairs(call('HMGET', P .. 'tn', unpack(called, from, last))) do
    local name, refused = called[from + n - 1], nil
    of[name] = tn and topic(tonumber(tn))
    terms[name], refused = terms_of(name, of[name])
    if refused then return refused end
  end
end
local ids, texts, some = {}, {}, {}
local count = 0
for _, run in ipairs(runs) do
  local most, U, body = size_of(terms[run.name]), run.U, run.width - 1
  for k = run.first, run.last, run.width do
    count = count + 1
    ids[count] = ARGV[k]
    if #ARGV[k + body] > most then return oversized(ARGV[k], run.name, #ARGV[k + body], most) end
    if U then
      texts[count] = ARGV[k + U]
      some[#some + 1] = ARGV[k + U]
    end
  end
end
if group then
  local refused = unfit(group.callback[2], #group.callback[13], group.callback[1])
  if refused then return refused end
end
local doubles, double, stored = repeats(ids, texts, some)
if group and not as_assumed(group, ids, double) then return { 'again', doubles, 0 } end
local new = count - #doubles / 2
local refused = G.most and new > 0 and overfull(new)
if refused then return refused end

local place = 0
for _, run in ipairs(runs) do
  local t = of[run.name]
  for k = run.first, run.last, run.width do
    place = place + 1
    if not double[place] then
      if not t then
        t = topic(number_of(run.name, true))
        of[run.name] = t
      end
      take(t, run, k)
    end
  end
end
flush()
local opened = group and open_group(group, older_members(group, stored))
if fires then fire(schedule, slot, ARGV[3]) end
if new == 0 and not opened and not fires then said_again() end
finish()
return { '', doubles, G.crowded and 1 or 0 }
