"""Which letters are equal in which collation. A MariaDB says the same."""

from __future__ import annotations

import pytest

from tests.unit.config.expressions.test_expressions import ROW, holds, judged
from ticdc_spark.config.expressions.collations import Collation, compare
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Row

GENERAL, UNICODE, UNICODE_520, UCA1400, MYSQL_8, AS_CI = (
    "utf8mb4_general_ci",
    "utf8mb4_unicode_ci",
    "utf8mb4_unicode_520_ci",
    "utf8mb4_uca1400_ai_ci",
    "utf8mb4_0900_ai_ci",
    "utf8mb4_uca1400_as_ci",
)
EVERY = {GENERAL, UNICODE, UNICODE_520, UCA1400, MYSQL_8, AS_CI}
BY_UNICODE = {UNICODE, UNICODE_520, UCA1400, MYSQL_8}
NEWER = {UNICODE_520, UCA1400, MYSQL_8}
NEWEST = {GENERAL, UCA1400, MYSQL_8}


@pytest.mark.parametrize(
    ("left", "right", "equal_in"),
    [
        ("ПЁС", "пёс", EVERY),
        ("ÉTÉ", "été", EVERY),
        ("Ά", "ά", EVERY),
        ("été", "ete", EVERY - {AS_CI}),
        ("пёс", "пес", EVERY - {AS_CI}),
        ("άλφα", "αλφα", EVERY - {AS_CI}),
        ("мой", "мои", set()),
        ("МОЙ", "мой", EVERY),
        ("їжа", "іжа", NEWEST),
        ("ѓ", "г", NEWEST),
        ("ќ", "к", NEWEST),
        ("ў", "у", NEWEST),
        ("ґ", "г", BY_UNICODE),
        ("ı", "i", {GENERAL}),
        ("İ", "i", EVERY - {AS_CI}),
        ("ſ", "s", EVERY - {AS_CI}),
        ("Sørensen", "Sorensen", NEWER),
        ("Łódź", "lodz", NEWER),
        ("Đorđe", "dorde", NEWER),
        ("ħ", "h", NEWER),
        ("ß", "s", {GENERAL}),
        ("straße", "strasse", BY_UNICODE),
        ("œuvre", "oeuvre", BY_UNICODE),
        ("Ærø", "aero", NEWER),
        ("ª", "a", BY_UNICODE | {AS_CI}),
    ],
)
def test_letters_of_a_collation(left: str, right: str, equal_in: set[str]) -> None:
    assert {name for name in EVERY if compare(left, right, Collation(name)) == 0} == equal_in


@pytest.mark.parametrize(
    "name", ["utf8mb3_general_ci", "utf8mb4_general_nopad_ci", "utf8_unicode_ci", "utf16_uca1400_ai_ci"]
)
def test_other_names_of_the_same_letters(name: str) -> None:
    assert compare("É", "e", Collation(name)) == 0


@pytest.mark.parametrize(
    "name", ["latin1_swedish_ci", "latin1_general_ci", "utf8mb4_german2_ci", "utf8mb4_tr_0900_ai_ci"]
)
def test_a_collation_of_a_language_compares_ascii_only(name: str) -> None:
    create = "t (a varchar(20) primary key)"
    assert judged("a = 'KOLN' and a like 'k_LN'", create, {"a": "Koln"}, a=name)
    with pytest.raises(MessageError, match=f"not ASCII cannot be compared in {name}"):
        judged("a = 'Koln'", create, {"a": "Köln"}, a=name)
    assert judged("a collate utf8mb4_general_ci = 'Koln'", create, {"a": "Köln"}, a=name)


def test_like_and_locate_take_a_letter_that_equals_two_as_one() -> None:
    create, row = "t (a varchar(20) primary key)", {"a": "straße"}
    for sql in ("a like 'stra_e'", "a like 'STRAßE'", "a not like 'strasse'", "locate('e', a) = 6", "a = 'strasse'"):
        assert judged(sql, create, row, a="utf8mb4_unicode_ci"), sql


def test_literals_before_a_column_in_a_list_take_its_collation() -> None:
    assert holds("'AB' in ('x', ci)") and holds("'AB' between 'a' and ci")


def test_a_binary_collation_wins_in_concat() -> None:
    row: Row = {**ROW, "ci": "a", "s": "a"}
    assert not holds("concat(ci, s) = 'AA'", row)
    assert not holds("concat_ws('-', ci, s) like 'A%'", row)
    assert holds("concat('A', ci) = 'aa' and concat(ci, s) collate utf8mb4_general_ci = 'AA'", row)
