"""The built page is that of its sources: by digests, and by a fresh build."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from tools.cases.missing import report_missing

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
ASSETS = ROOT / "src" / "cernis" / "serve" / "assets"
RECORD = json.loads((ASSETS / "build.json").read_text(encoding="utf-8"))


def test_the_page_was_built_from_these_sources() -> None:
    """Run `make web` after a change in web/, and commit what it writes."""
    files = [WEB / name for name in ("build.mjs", "package-lock.json", "tsconfig.json")]
    files += [path for path in (WEB / "src").rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for name, path in sorted((path.relative_to(WEB).as_posix(), path) for path in files):
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    assert RECORD["sources"] == digest.hexdigest()


def test_nobody_has_edited_the_built_files() -> None:
    built = {path.name: path.read_bytes() for path in ASSETS.iterdir() if path.name != "build.json"}
    assert {name: hashlib.sha256(file).hexdigest() for name, file in built.items()} == RECORD[
        "files"
    ]


def test_the_page_has_no_script_and_no_style_of_its_own() -> None:
    """The policy that the server sends would refuse them."""
    page = (ASSETS / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\sstyle=|\son\w+=", page) == []
    assert re.findall(r'(?:src|href)="(?!/assets/|#|data:)', page) == []


def test_the_lock_file_names_no_registry() -> None:
    """Whoever builds the page takes the packages from the registry of their own npm."""
    assert "://" not in (WEB / "package-lock.json").read_text(encoding="utf-8")


def _find_node() -> str:
    node = shutil.which("node", path=f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    if node is None or not (WEB / "node_modules").is_dir():
        report_missing("node", "Node or the packages of the page are missing: run make setup")
    return node


def test_a_fresh_build_gives_the_same_bytes(tmp_path: Path) -> None:
    subprocess.run([_find_node(), "build.mjs", "--into", str(tmp_path)], cwd=WEB, check=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in ASSETS.iterdir()
    }


def test_the_unit_tests_of_the_page_pass() -> None:
    node = _find_node()
    subprocess.run([node, "build.mjs", "--test"], cwd=WEB, check=True)
    ran = subprocess.run(
        [node, "--test", "build/test.mjs"], cwd=WEB, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout
