"""What other programs have put into the stream of a queue: the part of the scripts that takes it in."""

from __future__ import annotations

from worker.core.wireformat import TIMES_END

MOVE_BATCH = 500  # tasks that one script takes in, or finds due

# The body is the field `payload`; without one, the fields are it. What is no number counts as 0, nor
# is a time that no calendar can write. An id has to be UTF-8, for Python gives it back as that.
TAKE_IN = f"""
local function figure(text)
  local value = tonumber(text or 0) or 0
  return math.abs(value) < {TIMES_END:.0f} and value or 0  -- false of not-a-number as well
end
local SHAPES = {{
  '[\\194-\\223][\\128-\\191]',
  '\\224[\\160-\\191][\\128-\\191]', '[\\225-\\236\\238\\239][\\128-\\191][\\128-\\191]', '\\237[\\128-\\159][\\128-\\191]',
  '\\240[\\144-\\191][\\128-\\191][\\128-\\191]', '[\\241-\\243][\\128-\\191][\\128-\\191][\\128-\\191]',
  '\\244[\\128-\\143][\\128-\\191][\\128-\\191]',
}}
local function is_text(id)
  -- A letter in place of each character, for its neighbours must not become one.
  for _, shape in ipairs(SHAPES) do id = string.gsub(id, shape, 'x') end
  return id ~= '' and not string.find(id, '[\\128-\\255]')
end
local function take_in()
  for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', {MOVE_BATCH})) do
    local fields, given = entry[2], {{}}
    for at = 1, #fields, 2 do given[fields[at]] = fields[at + 1] end
    local priority = math.max(-100, math.min(100, math.floor(figure(given.priority))))
    local id = given.id and is_text(given.id) and given.id or entry[1]
    enter(id, given.payload or cjson.encode(given), priority, figure(given.not_before))
    redis.call('XDEL', KEYS[1], entry[1])
  end
end
take_in()
"""
