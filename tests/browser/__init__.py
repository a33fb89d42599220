"""The dashboard in a real browser: Debian's chromium, driven by playwright. Nightly."""
