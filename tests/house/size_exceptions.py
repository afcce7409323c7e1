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
        "src/finclaw/extensions/loading.py: difflib",
        "src/finclaw/extensions/loading.py: importlib.metadata",
        "src/finclaw/finance/venue.py: zoneinfo",
        "src/finclaw/providers/catalog.py: difflib",
        "src/finclaw/providers/endpoints.py: difflib",
        "src/finclaw/providers/endpoints.py: finclaw.providers.anthropic",
        "src/finclaw/providers/endpoints.py: finclaw.providers.openai",
        "src/finclaw/storage/kinds.py: finclaw.storage.jsonl.store",
    }
)
SHARED_TEST_MODULES: frozenset[str] = frozenset(
    {
        "tests/attack/test_advisories.py: tests.attack.test_advisories_doors",
        "tests/attack/test_advisories.py: tests.attack.test_canaries_calls",
        "tests/attack/test_advisories.py: tests.cli.test_sessions",
        "tests/attack/test_advisories_doors.py: tests.cli.test_sessions",
        "tests/attack/test_canaries_settings.py: tests.cli.test_sessions",
        "tests/attack/test_canaries_told.py: tests.attack.test_advisories_doors",
        "tests/attack/test_canaries_told.py: tests.attack.test_canaries_calls",
        "tests/attack/test_canaries_told.py: tests.cli.test_serve",
        "tests/attack/test_canaries_told.py: tests.cli.test_sessions",
        "tests/attack/test_known_secrets.py: tests.cli.test_sessions",
        "tests/attack/test_mcp_addresses.py: tests.builtins.mcp.test_http",
        "tests/attack/test_mcp_addresses.py: tests.providers.test_http_tls",
        "tests/attack/test_mcp_escape.py: tests.tools.process.test_worker",
        "tests/attack/test_poisoned_mcp.py: tests.tools.process.test_worker",
        "tests/attack/test_worker_escape.py: tests.tools.process.test_worker",
        "tests/chaos/test_backup.py: tests.cli.test_sessions",
        "tests/cli/test_approval_outcome.py: tests.cli.test_chat_unasked",
        "tests/cli/test_approvals.py: tests.cli.test_serve",
        "tests/cli/test_approvals.py: tests.cli.test_sessions",
        "tests/cli/test_ask.py: tests.cli.test_serve",
        "tests/cli/test_backup.py: tests.cli.test_serve",
        "tests/cli/test_backup.py: tests.cli.test_sessions",
        "tests/cli/test_chat_completion.py: tests.cli.test_chat_console",
        "tests/cli/test_chat_completion.py: tests.cli.test_chat_unasked",
        "tests/cli/test_costs.py: tests.cli.test_serve",
        "tests/cli/test_doctor.py: tests.cli.test_serve",
        "tests/cli/test_errors.py: tests.cli.test_serve",
        "tests/cli/test_forget.py: tests.cli.test_serve",
        "tests/cli/test_forget.py: tests.cli.test_sessions",
        "tests/cli/test_forget.py: tests.ports.test_erasure",
        "tests/cli/test_sessions.py: tests.cli.test_serve",
        "tests/cli/test_strangers_text.py: tests.cli.test_ask",
        "tests/cli/test_trace.py: tests.cli.test_serve",
        "tests/config/test_extension_secrets.py: tests.cli.test_sessions",
        "tests/conformance/test_one_path.py: tests.tools.test_registry",
        "tests/providers/test_http_read_coalescer.py: tests.providers.test_http_tls",
        "tests/providers/test_non_streaming.py: tests.providers.test_anthropic_oracle",
    }
)
