"""Odd values, command lines and records."""
