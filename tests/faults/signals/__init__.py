"""What test_signals.py changes in the command and in its consumers."""
