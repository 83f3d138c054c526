"""``python -m tests.support.prepare``: archive the classes of the JVMs that tests start as processes.

A run of all tests starts many, most of them with these jars. With an archive, each needs half the time.
"""
