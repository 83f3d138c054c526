"""SQL value expressions, of event filters and of rules for rows: MySQL's semantics over canonical values.

The package imports none of its modules. Tables are worked on in threads that import them when they need them, and two
threads may get a half-made module if a package and its modules import each other.
"""
