"""The names that `finclaw.testing` offers."""

import finclaw.testing


def test_every_name_is_there_and_in_order():
    assert finclaw.testing.__all__ == sorted(finclaw.testing.__all__)
    for name in finclaw.testing.__all__:
        assert getattr(finclaw.testing, name) is not None
