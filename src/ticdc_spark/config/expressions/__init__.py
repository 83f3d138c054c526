"""SQL value expressions, of event filters and of rules for rows: MySQL's semantics over canonical values.

The package imports none of its modules. Threads of tables import the modules when they need them. If a package and its
modules import each other, two threads may get a half-made module.
"""
