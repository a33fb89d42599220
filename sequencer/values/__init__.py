"""What users hold and pass: messages, receipts, views, and checks of single values.

Not here: what lies in Redis (`store`), how a queue is set (`settings`).
The rule: values hold data and decide nothing.
"""
