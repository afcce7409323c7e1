"""The package as a stranger meets it: one place to import from, nothing heavy until asked."""

import subprocess
import sys

import pytest

import finclaw.testing


def test_every_name_is_there_and_in_order():
    assert finclaw.testing.__all__ == sorted(finclaw.testing.__all__)
    for name in finclaw.testing.__all__:
        assert getattr(finclaw.testing, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Mock'"):
        getattr(finclaw.testing, "Mock")  # noqa: B009


def test_importing_it_leaves_the_driver_and_the_http_library_alone():
    # Not `apsw` and `aiohttp` themselves: the package around this one is free to need them.
    code = "import sys, finclaw.testing; print(*(m for m in sys.modules if m.startswith('finclaw.testing.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("finclaw.testing.") for name in done.stdout.split()}
    assert "clock" in loaded
    assert not loaded & {"disk", "loopback", "platform"}
