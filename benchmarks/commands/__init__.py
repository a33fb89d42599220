"""The commands of `python -m sequencer.benchmarks`: one module for each scenario, with its `command`."""
