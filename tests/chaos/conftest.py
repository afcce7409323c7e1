"""Chaos starts and kills dozens of processes in one test: how long that takes is the machine's to say, and no hang."""

import pytest
from tests.chaos.report import format_table, rows

SECONDS = 600


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if rows:  # they are in the workers' hands where there are workers
        terminalreporter.write_sep("=", "chaos")
        terminalreporter.write_line(format_table(rows))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--timeout") is not None:  # whoever runs the long forms has chosen
        return
    for item in items:
        if item.get_closest_marker("chaos") is not None:
            item.add_marker(pytest.mark.timeout(SECONDS))
