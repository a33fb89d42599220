-- clock_text: a time of the lane's clock as it is kept. From protocol 1 on it begins with "+":
-- 0.4.0, which knows no routes, refuses to append, claim or cancel then. Written so at every write,
-- since a repair by 0.4.0 takes the sign away. Needs: route, sub.
local function clock_text(text)
  if route == '' or sub(route, 1, 1) == '0' then return text end
  return '+' .. text
end
