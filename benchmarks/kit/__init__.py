"""What scenarios share: options and frame, rounds and phases, the server, the machine, tables and charts.

Not here: what is measured (`scenarios`), the processes that do the work (`load`).
The rule: a file names the machine, and a figure its spread.
"""
