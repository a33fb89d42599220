-- alert: takes what a watcher sees of a queue: which conditions hold. One that begins to hold opens
-- an incident. Of each incident the caller gets the right to tell its targets what is new; nobody
-- else gets it for some time. `alert_sent` says that it was sent; else another gets the right.
-- ARGV[1] seen     JSON [[kind, "open" (above its limit), "close" (well below) or "keep", value,
--                  limit, text, [targets for which there is something new to name]], ...]
-- ARGV[2] targets  JSON [name, ...]
-- ARGV[3] times    JSON, us: [settle, gap, again, hold, stale]: below its limit for `settle` it is
--                  over; news come after `gap`; it is told again after `again` (0: never); a right
--                  lasts for `hold`; what nobody looked at, or a target not asked for, for `stale`
--                  is over
-- RETURN  [now_us, then of each that may be told: kind, "open", "news", "again" or "resolved",
--         target, us when it opened, how many messages the target took of it, or may have, value,
--         limit, text when it was last above its limit, "1" if it is over before the target took a
--         message, else ""]
local seen, targets, times = cjson.decode(ARGV[1]), cjson.decode(ARGV[2]), cjson.decode(ARGV[3])
--+ keys
--+ generation
local alerts = prefix .. 'alerts'
call('HDEL', alerts, '') -- changes nothing; a first write that is allowed at maxmemory
--+ alert/record
local settle, gap, again, hold, stale = unpack(times)
local kept, news, said = {}, {}, {now_text}

-- A time ahead is of a clock that was set back: it counts as now, so that nothing ends or is told
-- again by that.
local function hold_to(times_of, names, latest)
  for _, name in ipairs(names) do
    if (tonumber(times_of[name]) or 0) > latest then
      times_of[name] = fmt('%.0f', latest)
    end
  end
end

local flat = call('HGETALL', alerts)
for i = 1, #flat, 2 do
  local record = record_of(flat[i + 1])
  if record then
    hold_to(record, {'seen', 'quiet'}, now)
    for _, to in pairs(record.to) do
      hold_to(to, {'sent', 'asked'}, now)
      hold_to(to, {'hold'}, now + hold)
    end
  end
  kept[flat[i]] = record
end

local function is_past(us, span)
  return now - (tonumber(us) or 0) >= span
end

-- The lowest limit decides: a watcher of a higher one sees the end of it too early. Once nobody has
-- looked with that limit for `stale`, another takes its place.
local function is_decided_by_another(record, limit)
  if record.resolved or is_past(record.seen, stale) then return false end
  return (tonumber(limit) or 0) > (tonumber(record.limit) or 0)
end

local function take(one)
  local kind, verdict, value, limit, text, new_to = unpack(one)
  local record = kept[kind]
  news[kind] = {}
  for _, target in ipairs(new_to) do
    news[kind][target] = true
  end
  if record and is_decided_by_another(record, limit) then return end
  if verdict == 'open' then
    record = record or {opened = now_text, to = {}}
    record.quiet, record.resolved, record.was = nil, nil, text
  elseif record and not record.resolved then
    if verdict == 'keep' then
      record.quiet = nil
    elseif not record.quiet then
      record.quiet = now_text
    elseif is_past(record.quiet, settle) then
      record.resolved = now_text
    end
  end
  if record then
    record.seen, record.value, record.limit = now_text, value, limit
    if text ~= '' then record.text = text end
    kept[kind] = record
  end
end

local function wanted(record, to, has_news)
  if record.resolved then return to.said ~= 'resolved' and 'resolved' or nil end
  if to.said ~= 'open' then return 'open' end
  if has_news and is_past(to.sent, gap) then return 'news' end
  if again > 0 and is_past(to.sent, again) then return 'again' end
end

-- From now on the target may have taken what it is told, also where no answer comes: only an answer
-- says what it took last. A message that says the opposite must not look like a repeat to it.
local function grant(to, what)
  to.hold = fmt('%.0f', now + hold)
  if what == 'open' and to.said == 'resolving' then
    to.n = fmt('%d', tonumber(to.n) + 1)
  end
  if what == 'open' then
    to.said = nil
  elseif what == 'resolved' then
    to.said = 'resolving'
  end
end

local function offer(kind, record)
  for _, target in ipairs(targets) do
    local to = record.to[target]
    if not to and not record.resolved then
      to = {n = '0'}
      record.to[target] = to
    end
    if to then
      to.asked = now_text
      local what = wanted(record, to, news[kind] and news[kind][target])
      if what and (tonumber(to.hold) or 0) <= now then
        grant(to, what)
        local is_late = record.resolved and not to.sent
        local text = is_late and record.was or record.text or ''
        local words = {kind, what, target, record.opened, to.n, record.value, record.limit, text}
        words[9] = is_late and '1' or ''
        for _, word in ipairs(words) do
          said[#said + 1] = word
        end
      end
    end
  end
  for name, to in pairs(record.to) do
    if is_past(to.asked, stale) then record.to[name] = nil end
  end
end

for _, one in ipairs(seen) do
  take(one)
end
for kind, record in pairs(kept) do
  if not record.resolved and is_past(record.seen, stale) then
    record.resolved = now_text
  end
  offer(kind, record)
  if is_done(record) then
    call('HDEL', alerts, kind)
  else
    call('HSET', alerts, kind, cjson.encode(record))
  end
end
return said
