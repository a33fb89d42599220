"""Small faults put into the code, one at a time, to see that a test turns red."""
