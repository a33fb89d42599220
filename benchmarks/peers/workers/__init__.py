"""What runs in the processes of Python systems: one module for each (`with_arq.py`), all on `stage`.

A peer's module runs in that peer's own environment, where this project is not installed: nothing here may import it.
Peers are imported by name (`import_module`), because they are not installed where types are checked either.

Not here: starting and judging them (`..cells`).
The rule: a worker notes what it handled, and nothing else.
"""
