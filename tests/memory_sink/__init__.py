"""A sink in memory and its change log: the second member of the contract, for simulation and tests of a job."""
