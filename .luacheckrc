-- Of the assembled scripts: python -m tests.support.assembled DIR; luacheck DIR
std = "lua51"
read_globals = {"redis", "KEYS", "ARGV", "cjson", "bit", "struct", "cmsgpack"}
max_line_length = 100
ignore = {
  "211/pcall", "211/sub", "211/fmt", "211/time_us", -- the prelude has the words of all scripts
  "241/fresh", -- check_memory writes it, and scripts that begin no generation do not read it
  "43.", -- a parameter of a part may be named as what the script calls its own
}
