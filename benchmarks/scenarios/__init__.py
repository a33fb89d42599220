"""What is measured, a file or a package each: options, runs, tables.

Not here: other systems (`peers`), what scenarios share (`kit`, `load`).
The rule: a run with a wrong history counts for nothing.
"""
