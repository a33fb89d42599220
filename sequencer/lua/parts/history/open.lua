-- open: history is kept in buckets of time (sequencer/README.md has the keys), each named by its
-- beginning. One is over after a 24th of the window, or with a 24th of the cap; so what is dropped
-- is a 24th. `memory` has of the open one name and end, when the oldest is to be dropped, and
-- whether it has bodies (history:open, :end, :due, :bodies). A full server takes no bodies: it is
-- to be drained.
local function listed() -- the buckets, each with its end, the oldest first
  return call('ZRANGEBYSCORE', prefix .. 'histories', '-inf', 'inf', 'WITHSCORES')
end

local PARTS = 24

-- Nil where no history is kept. Called before the first write: behind that the server refuses
-- nothing any more. `room`: whether it takes bodies; nil to ask it.
local function open_history(room)
  local window, cap, bodies = unpack(call('HMGET', prefix .. 'policy', 'history_us', 'history_cap',
    'history_bodies'))
  window = tonumber(window or 0) or 0
  if window <= 0 then return nil end
  local open = {window = window, cap = tonumber(cap or nil) or 1000000, span = window / PARTS}
  open.share = math.max(1, math.floor(open.cap / PARTS))
  open.has_bodies, open.endings, open.bodies = bodies == '1', {}, {}
  if room == nil and open.has_bodies then
    room = type(pcall('HINCRBY', stats, 'handled', 0)) ~= 'table'
  end
  open.takes_bodies = open.has_bodies and room
  local known = call('HMGET', memory, 'history:open', 'history:end', 'history:due',
    'history:bodies')
  local name, began = known[1], tonumber(known[1] or nil)
  open.name, open.ends = name, tonumber(known[2] or nil) or 0
  open.due = tonumber(known[3] or nil) or 0
  open.is_over = not began or now >= open.ends or math.abs(now - began) >= open.span
    or (known[4] == '1') ~= open.has_bodies
    or call('HLEN', prefix .. 'history:' .. name) > open.share
  open.is_due = open.is_over or now >= open.due
  if open.is_due then
    listed() -- it has its type
  end
  return open
end
