"""The first tables of the shop, and tables that come later."""

from tests.workload.columns import KINDS, Make, Rand, Recipe, column_type, recipe
from ticdc_spark.model import Column, Index, Table, Value

Blueprint = tuple[tuple[Recipe, ...], tuple[Index, ...]]
"""Columns and indexes of a table."""


def _unsigned(_rand: Rand, n: int) -> Value:
    # on both sides of 2**63
    return str(2**63 - 500 + n)


def _email(_rand: Rand, n: int) -> Value:
    return f"østby.{n}@example.com"


def _sku(_rand: Rand, n: int) -> Value:
    return f"SKU{n:07d}"


def _token(_rand: Rand, n: int) -> Value:
    return b"\xff\x00" + n.to_bytes(6, "big")


def _serial(_rand: Rand, n: int) -> Value:
    return str(n)


def _order(_rand: Rand, n: int) -> Value:
    return str(2**63 - 500 + n // 3)


def _line(_rand: Rand, n: int) -> Value:
    return str(n % 3)


def _own(name: str, sql: str, make: Make, **more: str) -> Recipe:
    """A NOT NULL column of a type of its own."""
    default = more.get("default")
    column = Column(name=name, type=column_type(sql), nullable=False, default=default)
    return Recipe(kind="", column=column, sql=sql, make=make, default_sql=f"_UTF8MB4'{default}'" if default else "")


def _index(name: str, *columns: str, unique: bool = True, primary: bool = False) -> Index:
    return Index(name=name, unique=unique, primary=primary, nullable=False, columns=columns)


def _currency(rand: Rand, _n: int) -> Value:
    return "EUR" if rand() < 0.5 else "USD"


SHOP: dict[str, Blueprint] = {
    "customers": (
        (
            _own("id", "BIGINT", _serial),
            _own("email", "VARCHAR(120)", _email),
            recipe("varchar", "full_name", nullable=False),
            recipe("varchar", "phone"),
            recipe("decimal", "balance", nullable=False, default=True),
            recipe("enum", "tier", default=True),
            recipe("datetime3", "created_at", nullable=False),
        ),
        (_index("uk_email", "email"), _index("primary", "id", primary=True)),
    ),
    "products": (
        (
            _own("id", "INT UNSIGNED", _serial),
            _own("sku", "CHAR(10)", _sku),
            recipe("varchar200", "title", nullable=False),
            recipe("decimal", "price", nullable=False),
            recipe("int", "stock", nullable=False),
            recipe("set", "tags"),
            recipe("json", "attrs"),
            recipe("double", "weight"),
            recipe("float", "score", default=True),
        ),
        (_index("uk_sku", "sku"), _index("primary", "id", primary=True)),
    ),
    "orders": (
        (
            _own("id", "BIGINT UNSIGNED", _unsigned),
            recipe("bigint", "customer_id", nullable=False),
            _own("currency", "CHAR(3)", _currency, default="USD"),
            recipe("decimal", "total", default=True),
            recipe("text", "note"),
            recipe("timestamp", "placed_at", nullable=False),
            recipe("bool", "paid", nullable=False, default=True),
        ),
        (_index("idx_c", "customer_id", unique=False), _index("primary", "id", primary=True)),
    ),
    "order_items": (
        (
            _own("order_id", "BIGINT UNSIGNED", _order),
            _own("line", "INT", _line),
            recipe("int_unsigned", "product_id", nullable=False),
            recipe("smallint_unsigned", "qty", nullable=False),
            recipe("decimal", "unit_price", nullable=False),
            recipe("float", "discount"),
        ),
        (_index("PRIMARY", "order_id", "line", primary=True),),
    ),
    "coupons": (
        (
            _own("code", "VARCHAR(20)", _sku),
            recipe("bigint_unsigned", "uses", default=True),
            recipe("varchar", "label", default=True),
        ),
        (_index("uk_code", "code"),),
    ),
    "sessions": (
        (_own("token", "VARBINARY(16)", _token), recipe("blob", "payload"), recipe("varbinary", "seen", default=True)),
        (_index("PRIMARY", "token", primary=True),),
    ),
}
"""Blueprints by table name."""


def blueprint(rand: Rand) -> Blueprint:
    """A table with one of the shop's keys and a few columns of any kinds."""
    recipes, indexes = tuple(SHOP.values())[int(rand() * len(SHOP))]
    unique = {name for index in indexes if index.unique for name in index.columns}
    keys = tuple(item for item in recipes if item.column.name in unique)
    more = tuple(any_column(rand, f"c{number}") for number in range(1 + int(rand() * 5)))
    return keys + more, tuple(index for index in indexes if index.unique)


def any_column(rand: Rand, name: str) -> Recipe:
    """A column of any kind: with or without NULLs, with or without a default."""
    kinds = tuple(KINDS)
    kind = kinds[int(rand() * len(kinds))]
    has_literal = bool(KINDS[kind][2])
    # a NOT NULL time without default would be the zero date, which strict servers refuse
    nullable = rand() < 0.6 or kind in ("datetime3", "timestamp")
    return recipe(kind, name, nullable=nullable, default=has_literal and rand() < 0.6, nulls=0.3)


def new_table(schema: str, name: str, plan: Blueprint, table_id: int, version: int) -> Table:
    """The table of a blueprint."""
    recipes, indexes = plan
    return Table(
        schema=schema,
        name=name,
        columns=tuple(item.column for item in recipes),
        indexes=indexes,
        table_id=table_id,
        version=version,
    )
