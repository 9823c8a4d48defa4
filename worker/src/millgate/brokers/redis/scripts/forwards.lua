-- forwards: how many. Answers pairs of serial and packed id with letter that wait to be carried over.
local serials, out = call('HRANDFIELD', P .. 'fw', tonumber(ARGV[1])), {}
for _, serial in ipairs(serials) do
  out[#out + 1] = serial
  out[#out + 1] = call('HGET', P .. 'fw', serial)
end
return out
