-- keep: writes into the history, and drops what is too old or too much.
--+ history/open
-- Drops buckets that are over for the window, and the oldest where all have more than `room`
-- entries. Returns how many entries went, in which buckets, and when the next bucket is over.
local function clean_history(window, room)
  local found, total, gone, names, due = listed(), 0, 0, {}, math.huge
  for i = #found - 1, 1, -2 do
    local name, ends = found[i], tonumber(found[i + 1])
    local key = prefix .. 'history:' .. name
    local size = math.max(0, (tonumber(pcall('HLEN', key)) or 0) - 1) -- but for the padding
    total = total + size
    if now - ends >= window or total > room then
      call('UNLINK', key, key .. ':bodies')
      call('ZREM', prefix .. 'histories', name)
      gone = gone + size
      names[name] = true
    else
      due = ends + window
    end
  end
  return gone, names, due
end

-- A bucket begins with a field "" of 65 bytes: so it is a hash table from the first on. In the
-- packed form of a hash each write would go through up to 512 fields.
local function begin_bucket(open)
  local histories, last = prefix .. 'histories', tonumber(open.name or nil)
  if last and open.ends > now then
    call('ZADD', histories, fmt('%.0f', now), open.name) -- it ends early
  end
  local _, _, due = clean_history(open.window, open.cap - open.share)
  local began = now
  if last and last >= now and last - now < open.span then began = last + 1 end
  open.name, open.ends = fmt('%016.0f', began), now + math.ceil(open.span)
  open.due = math.min(due, open.ends + open.window)
  call('HSET', prefix .. 'history:' .. open.name, '', ('-'):rep(65))
  call('ZADD', histories, fmt('%.0f', open.ends), open.name)
end

-- `field`: group, newline, id. `text`: how it ended. The rest as a dead letter has it: its score,
-- its failure or "", its record. `open`: nil where no history is kept.
local function add_ending(open, field, text, score, failure, record)
  if not open then return end
  local at = #open.endings
  open.endings[at + 1], open.endings[at + 2] = field, text
  if open.takes_bodies then
    open.bodies[at + 1], open.bodies[at + 2] = field, score .. '\n' .. failure .. '\n' .. record
  end
end

local function write_all(key, words)
  for from = 1, #words, 4000 do
    call('HSET', key, unpack(words, from, math.min(from + 3999, #words)))
  end
end

local function keep_history(open)
  if not open or #open.endings == 0 then return end
  if open.is_over then
    begin_bucket(open)
  elseif open.is_due then
    local _, _, due = clean_history(open.window, math.huge)
    open.due = math.min(due, open.ends + open.window)
  end
  if open.is_due then
    call('HSET', memory, 'history:open', open.name, 'history:end', fmt('%.0f', open.ends),
      'history:due', fmt('%.0f', open.due), 'history:bodies', open.has_bodies and '1' or '0')
  end
  local key = prefix .. 'history:' .. open.name
  write_all(key .. ':bodies', open.bodies)
  write_all(key, open.endings)
end

-- What a script itself says of a message that ended, as store/ending.py reads it: no run of
-- its handler is known. `letter`: of the outcome; `stamp`: its record begins with it.
local function ended_text(letter, stamp, attempts)
  local at = math.floor(now / 1000)
  local waited = math.max(0, at - math.floor((tonumber(sub(stamp, 1, 16)) or now) / 1000))
  return letter .. fmt('%x %x %x', tonumber(attempts) or 0, at, waited)
end
