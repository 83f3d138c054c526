"""The Spark data source ``ticdc``: the changes of topics as a DataFrame or a stream, and rows as messages.

Spark plans a Python data source in a separate process, without a session. So topics are listed and read here in Python
only, and each task gets what it must know together with its part.
"""
