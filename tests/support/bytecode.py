"""Programs of Lua 5.1 as their instructions, so that two texts can be compared and names looked up."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from lupa import lua51  # type: ignore[import-untyped]  # its stubs know no lua51

GET_GLOBAL, SET_GLOBAL, SET_UPVALUE = 5, 7, 8


class Function(NamedTuple):
    """A function without its lines and the names of its locals."""

    shape: bytes
    code: list[int]
    constants: list[Any]
    inner: list[Function]

    def names(self, instruction: int) -> Iterator[str]:
        """Of the globals that such an instruction reads or writes, here and inside."""
        for word in self.code:
            if word & 0x3F == instruction:
                yield self.constants[word >> 14][1][:-1].decode() if instruction != SET_UPVALUE else "an upvalue"
        for one in self.inner:
            yield from one.names(instruction)


class _Dump:
    """What `string.dump` wrote."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 12

    def number(self, kind: str) -> Any:
        (value,) = struct.unpack_from(kind, self.data, self.at)
        self.at += struct.calcsize(kind)
        return value

    def text(self) -> bytes:
        size = self.number("<Q")
        self.at += size
        return self.data[self.at - size : self.at]

    def constant(self) -> Any:
        kind = self.number("<B")
        return kind, {0: lambda: None, 1: lambda: self.number("<B"), 3: lambda: self.number("<d"), 4: self.text}[kind]()

    def function(self) -> Function:
        self.text(), self.number("<i"), self.number("<i")
        shape = self.number("<4s")
        code = [self.number("<I") for _ in range(self.number("<i"))]
        constants = [self.constant() for _ in range(self.number("<i"))]
        inner = [self.function() for _ in range(self.number("<i"))]
        [self.number("<i") for _ in range(self.number("<i"))]
        [(self.text(), self.number("<i"), self.number("<i")) for _ in range(self.number("<i"))]
        [self.text() for _ in range(self.number("<i"))]
        return Function(shape, code, constants, inner)


def program(text: str) -> Function:
    """What a text says to Lua 5.1."""
    lua = lua51.LuaRuntime(encoding=None)
    dump = _Dump(lua.eval(b"function(text) return string.dump(assert(loadstring(text))) end")(text.encode()))
    function = dump.function()
    assert dump.at == len(dump.data)
    return function
