"""Odd values and records."""
