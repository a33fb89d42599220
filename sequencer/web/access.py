"""Who may: what `who` says of a request becomes its role."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

Role = Literal["operate", "look"]
Who = Callable[[Request], Role | Awaitable[Role | None] | None]


class Access:
    """Sets `request.state.role`; who has none is refused."""

    def __init__(self, app: ASGIApp, who: Who, is_read_only: bool = False) -> None:
        self.app, self.who, self.is_read_only = app, who, is_read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        found: Any = self.who(Request(scope))
        role = await found if inspect.isawaitable(found) else found
        if role is None:
            await PlainTextResponse("forbidden", 403)(scope, receive, send)
            return
        scope.setdefault("state", {})["role"] = "look" if self.is_read_only else role
        await self.app(scope, receive, send)
