"""Canal's words for kinds of DDL, which TiCDC uses in other protocols too."""

from ticdc_spark.protocols.shared.tidb_ddl_codes import ddl_type_code

_DDL_TYPES = {
    **dict.fromkeys((1, 2, 21, 24, 25, 26, 42, 65, 67), "QUERY"),
    3: "CREATE",
    4: "ERASE",
    11: "TRUNCATE",
    14: "RENAME",
    **dict.fromkeys((7, 9, 32), "CINDEX"),
    **dict.fromkeys((8, 10, 33), "DINDEX"),
}
"""TiDB's number of a DDL job → Canal's word. All others are ALTER."""


def ddl_word(sql: str) -> str:
    """Canal's and Simple's word for a DDL: CREATE, ALTER, ERASE …

    Raises: MessageError if the SQL cannot be read.
    """
    return _DDL_TYPES.get(ddl_type_code(sql), "ALTER")
