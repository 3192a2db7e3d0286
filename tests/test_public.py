"""What users import: `cernis`, and of it `generators`, `pattern`, `rdf` and `spark`."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import traceback
from importlib import import_module
from pathlib import Path

import pytest

import cernis

PUBLIC = ["cernis", "cernis.generators", "cernis.pattern", "cernis.rdf", "cernis.spark"]
ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_IMPORTED = re.compile(r"^(?:>>> |\.\.\. )?\s*(?:from|import) (cernis[\w.]*)", re.MULTILINE)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_listed_alone(name: str) -> None:
    module = import_module(name)
    assert sorted(set(dir(module)) - {"__version__"}) == sorted(module.__all__)
    assert [public for public in module.__all__ if not hasattr(module, public)] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_no_other_name_is_found(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        import_module(name).nothing  # noqa: B018


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_import_public_modules_only(page: Path) -> None:
    imported = set(_IMPORTED.findall(page.read_text(encoding="utf-8")))
    assert imported <= set(PUBLIC)


def test_tracebacks_show_the_public_names_of_errors() -> None:
    with pytest.raises(cernis.StateError) as raised:
        cernis.query("SELECT * FROM S WHERE A").session().pull()
    assert traceback.format_exception_only(raised.value)[0].startswith("cernis.StateError: ")
    assert type(pickle.loads(pickle.dumps(raised.value))) is cernis.StateError


def test_importing_all_of_them_is_light() -> None:
    heavy = ["pyspark", "pandas", "polars", "pyoxigraph", "numba", "pyarrow"]
    code = f"import sys, {', '.join(PUBLIC)}; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
