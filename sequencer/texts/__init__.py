"""All English and all command lines: what events, findings, explanations and refusals say, made from their fields.
Pure. Nothing else builds a sentence or prints a command.

Not here: what is said (`values`), and who says it.
The rule: a text is made from the data that is reported, when somebody reads it.
"""
