"""The numbers of groups in the types that Spark has for them."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import cernis
from cernis.results.formats.group_columns import sum_column
from cernis.work.group_parts import cast_groups


@pytest.mark.parametrize("digits", [39, 60, 77, 85, 95])
@pytest.mark.parametrize("places", [0, 2])
def test_a_number_beyond_38_digits_is_an_error_or_a_text(digits: int, places: int) -> None:
    numbers = [7, -(10 ** (digits - 1)) - 3]
    column = sum_column(numbers, None, places or None)
    table = pa.table({"n": column})
    with pytest.raises(cernis.DataError, match="a number has 39 digits or more"):
        cast_groups(table, ["n"], "decimal")
    texts = cast_groups(table, ["n"], "text")["n"].to_pylist()
    assert [int(text.replace(".", "")) for text in texts] == numbers


@pytest.mark.parametrize("places", [0, 2])
def test_numbers_of_38_digits_are_decimals(places: int) -> None:
    numbers = [7, None, 10**38 - 1]
    cast = cast_groups(pa.table({"n": sum_column(numbers, None, places)}), ["n"], "decimal")["n"]
    assert cast.type == pa.decimal128(38, places)
    assert cast[0].as_py() == Decimal(7).scaleb(-places)
