"""The proof under faults: `python -m sequencer.faults` breaks things on purpose and judges what came of it.

Each proof is a module with `run(scale) -> Result`; what users can run on their own handlers is in `sequencer.testing`.
"""
