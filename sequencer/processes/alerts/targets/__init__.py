"""Targets of alerts: where notices go, and how each type says that it took one.

Not here: what a notice says (`notice.py`), and the thread that attempts again (`sender.py`).
The rule: what a target raises holds no URL, token or secret.
"""
