"""The dashboard: pages that show what queues do and why a group waits, and buttons that change it. Extra `web`.

`dashboard.py` makes the ASGI app, `access.py` knows who may do what, `pages.py` and `find.py` have what is only shown,
`changes.py` has the buttons, `append.py` takes messages of programs, `sampler.py` reads what all viewers share.

Not here: what it shows (`client.py`), any sentence about a group, a refusal or an alert (`texts`), `sequencer web`
(`cli`).
The rule: a GET changes nothing on the server. Texts of others pass `plain` and are escaped, wherever they stand
(`rendering.py`). Endpoints are plain functions, which Starlette runs in threads.
"""

from .access import Role, Token, Who
from .dashboard import dashboard

__all__ = ["Role", "Token", "Who", "dashboard"]
