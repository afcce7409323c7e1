"""A search for words in every file of a state directory."""

import json
import zlib
from pathlib import Path

import apsw


def found_in(state: Path, text: str) -> list[str]:
    """Every file that holds the text in some form, packed pages of a database opened."""
    forms = [text.encode(), text.encode("utf-16-le"), json.dumps(text)[1:-1].encode()]
    places = [str(path) for path in state.rglob("*") if path.is_file() and _holds(path.read_bytes(), forms)]
    for path in state.rglob("*.db"):
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'page'").fetchone():
                packed = [bytes(beside) for (beside,) in db.execute("SELECT beside FROM page")]
                places += [f"{path} (packed)" for each in packed if _holds(_unpacked(each), forms)]
        finally:
            db.close()
    return places


def _unpacked(data: bytes) -> bytes:
    return data if data.startswith(b"{") else zlib.decompress(data)


def _holds(data: bytes, forms: list[bytes]) -> bool:
    return any(form in data for form in forms)
