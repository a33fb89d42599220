-- Of the assembled scripts: python -m tests.support.assembled DIR; luacheck DIR
std = "lua51"
read_globals = {"redis", "KEYS", "ARGV", "cjson", "bit", "struct", "cmsgpack"}
max_line_length = 120
ignore = {
  -- The prelude has the words of all scripts, and the part keys has the keys of most.
  "211/pcall", "211/sub", "211/fmt", "211/time_us", "211/now", "211/now_text", "211/prefix", "211/schedule",
  "211/leases", "211/failures", "211/dispatch", "211/stats", "211/memory", "211/clock_key",
  "211/policy_key", "211/paused", "211/outage", "211/dead", "211/dead_letters", "211/skipped",
  "211/policy_numbers", "211/head_of", "211/first_of",
  "211/hint", "211/SOON", "211/shard_clock", "211/marks_of", "211/known", "211/remember_ids", "211/remember_marks",
  "211/retire", "211/forget", "211/check_memory", "211/note_again", "211/forget_again", "211/ended_letter", "211/ended_text", "211/sequences",
  "241/fresh", -- check_memory writes it, and scripts that begin no generation do not read it
  "43.", -- a parameter of a part may be named as what the script calls its own
}
