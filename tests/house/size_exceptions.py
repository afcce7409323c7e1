"""Exceptions from the caps of `test_sizes.py`. The lists only shrink: `python -m tests.house.sizes`."""

LONG_MODULES: frozenset[str] = frozenset()
FULL_DIRECTORIES: frozenset[str] = frozenset()
LARGE_STATES: frozenset[str] = frozenset()
CRUMBS: frozenset[str] = frozenset()
DOUBLED_CLASSES: frozenset[str] = frozenset()
INNER_IMPORTS: frozenset[str] = frozenset(
    {
        "src/finclaw/builtins/calculator/evaluate.py: difflib",
        "src/finclaw/builtins/now.py: zoneinfo",
        "src/finclaw/builtins/skills/front_matter.py: yaml",
        "src/finclaw/builtins/web/fetch.py: importlib.metadata",
        "src/finclaw/config/load.py: finclaw.config.document",
        "src/finclaw/config/routes.py: finclaw.demo.assistant",
        "src/finclaw/config/words.py: difflib",
        "src/finclaw/config/words.py: finclaw.tools.guard.redact",
        "src/finclaw/finance/venue.py: zoneinfo",
        "src/finclaw/providers/catalog.py: difflib",
        "src/finclaw/providers/endpoints.py: difflib",
        "src/finclaw/providers/endpoints.py: finclaw.providers.anthropic",
        "src/finclaw/providers/endpoints.py: finclaw.providers.openai",
        "src/finclaw/storage/kinds.py: finclaw.storage.jsonl.store",
    }
)
SHARED_TEST_MODULES: frozenset[str] = frozenset()
