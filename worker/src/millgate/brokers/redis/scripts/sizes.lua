-- sizes: of messages that are going to follow, topics with the bytes of the largest record and its message's id.
queue()
for k = 1, #ARGV, 3 do
  local refused = too_large(ARGV[k + 2], ARGV[k], tonumber(ARGV[k + 1]))
  if refused then return refused end
end
return 1
