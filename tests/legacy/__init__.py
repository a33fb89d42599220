"""Five older systems, each written with sequencer as its users would write it; beside each module, the tests of its
rules. docs/from-older-systems.md says what each one had.
"""
