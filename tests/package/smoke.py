"""A smoke test of an installed package: run by `make package` in an empty environment.

Uses the package as a user does who has nothing else: no Spark, no pandas, no test tools. The
folder of this file is not on the path of modules, so that `cernis` is the installed one.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
from pathlib import Path

TRADES = "type,name,price,ts\nSELL,MSFT,101,1000\nBUY,MSFT,99,2000\nBUY,INTL,80,3000\n"
QUERY = "SELECT * FROM S WHERE (SELL AS s ; BUY AS b) PARTITION BY [name] WITHIN 5 SECONDS"
LINE = (
    '{"start":0,"end":1,"start_ts":1000,"end_ts":2000,"vars":{"s":[0],"b":[1]},'
    '"partition":{"name":"MSFT"}}\n'
)


def run(*arguments: str, given: str | None = None, code: int = 0) -> str:
    """Return what the command of the package writes; its exit code must be this one."""
    command = [str(Path(sys.executable).parent / "cernis"), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{said}"
    return said


def main() -> None:
    import cernis

    installed = Path(cernis.__file__).parent
    assert Path(sys.prefix) in installed.parents, f"{installed} is not in {sys.prefix}"
    assert (installed / "py.typed").exists()
    version = importlib.metadata.version("cernis")
    assert cernis.__version__ == version
    assert run("--version") == f"cernis {version}\n"

    rows = [{"type": "A", "x": 1}, {"type": "B", "x": 2}]
    assert cernis.query("SELECT * FROM S WHERE A ; B FILTER A[x] < B[x]").run(rows).count() == 1
    assert cernis.query("Q(x, y) <- A(x: x), B(x: y)", lang="cq").run(rows).count() == 1

    for needy, extra in (("to_pandas", "pandas"), ("to_polars", "polars"), ("plot", "notebook")):
        said = ""
        try:
            getattr(cernis.query("SELECT * FROM S WHERE A").run(rows), needy)()
        except cernis.CernisError as error:
            said = str(error)
        assert said.endswith(f"pip install 'cernis[{extra}]'"), said

    with tempfile.TemporaryDirectory() as folder:
        trades = Path(folder) / "trades.csv"
        trades.write_text(TRADES)
        assert run("run", QUERY, "--events", str(trades), "--output", "-") == LINE
        assert run("run", QUERY, "--events", "-", "--output", "-", given=TRADES) == LINE
        matches = Path(folder) / "matches.parquet"
        run("run", QUERY, "--events", str(trades), "--output", str(matches))
        assert matches.stat().st_size
        said = run("run", QUERY, "--events", str(trades), "--engine", "spark", code=1)
        assert said.startswith("error: Spark is not installed"), said
    assert run("check", QUERY) == "OK\n"
    assert "the benchmarks stand beside the sources of Cernis" in run("bench", code=1)
    assert "automaton" in run("explain", QUERY)
    print(f"cernis {version} on Python {sys.version.split()[0]}: {installed}")


if __name__ == "__main__":
    main()
