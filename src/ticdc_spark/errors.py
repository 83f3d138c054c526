"""One tree of errors.

::

    TicdcSparkError
    ├── UsageError            exit 2: the job file or the command line is wrong
    ├── EnvironmentFault      exit 1: something outside is broken; running again later may work
    │   ├── SourceFault       broker, recorded topic, files
    │   ├── SinkFault         catalog, table format, permission; the broker that a changefeed writes to
    │   └── RegistryFault     schema registry
    ├── DecisionNeeded        exit 4: nothing is broken, but a person must decide; do not restart blindly
    │   ├── LeaseHeld         another job owns the target
    │   ├── SchemaMissing     rows wait for a schema that never came
    │   ├── UnsupportedDdl    a DDL that this version does not replay
    │   ├── IncompatibleSchema  a schema that the registry refuses
    │   ├── SourceChanged     the topic is not the one that was read, or lacks messages that were not read yet
    │   ├── UnsendableChange  a change that the protocol cannot carry, or that is too large for the topic
    │   ├── RejectedMessage   a message that cannot be read, with ``on-reject = "stop"``
    │   └── LateRow           a row below what was already applied, with ``late-rows = "fail"``
    └── MessageError          a bad message: data, not a failure; becomes ``model.Rejected``

Errors of other libraries are wrapped where they are raised, with ``from``.
"""


class TicdcSparkError(Exception):
    """Base of every error that this package raises on purpose."""

    exit_code = 1


class UsageError(TicdcSparkError):
    """The job file or the command line is wrong; the message names the key and what is allowed."""

    exit_code = 2


class EnvironmentFault(TicdcSparkError):
    """Something outside the job is broken. It never becomes a dead letter."""


class SourceFault(EnvironmentFault):
    """The broker or the recorded topic cannot be read."""


class SinkFault(EnvironmentFault):
    """The lake, or the Kafka cluster of a changefeed, cannot be read or written."""


class RegistryFault(EnvironmentFault):
    """The schema registry cannot be reached or refuses us."""


class DecisionNeeded(TicdcSparkError):
    """Nothing is lost and nothing is broken, but a person must decide how to continue."""

    exit_code = 4


class LeaseHeld(DecisionNeeded):
    """Another process runs this job; the message names its host and process."""


class SchemaMissing(DecisionNeeded):
    """Rows wait for a table's schema for longer than ``schema-timeout``."""


class UnsupportedDdl(DecisionNeeded):
    """A DDL that this version does not replay; the message has its SQL and the line that skips it."""


class IncompatibleSchema(DecisionNeeded):
    """The schema registry's compatibility check refuses a table's new schema; the message names what changed."""


class SourceChanged(DecisionNeeded):
    """The source has changed: a topic was recreated, or messages were removed before they were read."""


class UnsendableChange(DecisionNeeded):
    """A change that cannot be sent: a value that the protocol cannot carry, or a message that the topic refuses."""


class RejectedMessage(DecisionNeeded):
    """A message that cannot be read, under ``on-reject = "stop"``."""


class LateRow(DecisionNeeded):
    """A row at or below what its table has applied that is no replay, under ``late-rows = "fail"``."""


class MessageError(TicdcSparkError):
    """A message, or a value in it, cannot be read. Decoders turn it into ``model.Rejected``."""


def os_reason(error: OSError) -> str:
    """The operating system's text, with the path if the error has one: ``No space left on device: /data/x``."""
    what = error.strerror or str(error) or type(error).__name__
    return what if error.filename is None else f"{what}: {error.filename}"
