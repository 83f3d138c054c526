"""The mutations that stories must find. Each describes what is wrong; ``mutate`` makes it."""

from __future__ import annotations

from tests.simulator.mutate import Mutation
from tests.simulator.mutations_of_keyless import KEYLESS
from tests.simulator.mutations_of_steps import LEASE, MARKS, STEPS
from tests.simulator.mutations_of_tables import DDL, ROWS, TIME

MUTATIONS: tuple[Mutation, ...] = (*MARKS, *LEASE, *STEPS, *TIME, *DDL, *ROWS, *KEYLESS)
