"""The Spark data source ``ticdc``: the changes of topics as a DataFrame or a stream, and rows as messages.

Spark plans a Python data source in a process of its own, without a session. So topics are listed and read here by
Python alone, and what tasks must know goes to them with their part.
"""
