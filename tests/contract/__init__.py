"""The contract of a sink as tests that every member passes: a class for pytest, filled in by a fixture ``member``.

``tests/memory_sink/test_memory_sink.py`` runs it in this process, ``tests/spark/test_sink_contract.py``
on Iceberg.
"""

from tests.contract.appends import AppendsContract
from tests.contract.capabilities import CapabilitiesContract, DeletesContract, ReadsContract, TypesContract
from tests.contract.changes import ChangesContract
from tests.contract.columns import ColumnsContract
from tests.contract.counts import CountsContract
from tests.contract.fences import FenceContract
from tests.contract.loads import LoadsContract
from tests.contract.moves import MovesContract
from tests.contract.newest import NewestContract
from tests.contract.others import OthersContract
from tests.contract.tables import TablesContract
from tests.contract.topics import TopicContract
from tests.contract.typed import TypedContract


class SinkContract(
    TablesContract,
    ColumnsContract,
    ChangesContract,
    CountsContract,
    AppendsContract,
    LoadsContract,
    MovesContract,
    NewestContract,
    OthersContract,
    FenceContract,
    TopicContract,
    TypedContract,
    CapabilitiesContract,
    ReadsContract,
    TypesContract,
    DeletesContract,
):
    """Everything that a sink promises."""


__all__ = ["SinkContract"]
