"""Read the settings, once, at start: the file, then the environment, then the command line; the later wins.

Nobody else reads the file or the environment. Whatever is wrong is said in one line that tells where and what to do.
"""

from collections.abc import Mapping
from pathlib import Path

from finclaw.config.fill import fill, keys
from finclaw.config.given import Given, Tree, put, texts
from finclaw.config.schema import Settings
from finclaw.config.secrets import SecretKeeper
from finclaw.config.words import did_you_mean
from finclaw.errors import ConfigError

FILE_NAME = "finclaw.yaml"
PREFIX = "FINCLAW_"
HOME = "FINCLAW_HOME"
NOT_SETTINGS = frozenset({HOME, "FINCLAW_CRASH"})
"""The second is how the chaos tests tell a child where to die; nothing that is shipped to run reads it."""


def load_settings(
    *,
    state: Path | None = None,
    config: Path | None = None,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """`overrides` are the command line's, by dotted key; None means that the option was not given."""
    state = _state_directory(state, environ)
    file = config or state / FILE_NAME
    tree = _read_file(file, required=config is not None)
    _refuse_state(tree)
    _add_environment(tree, environ)
    for key, value in (overrides or {}).items():
        if value is not None:
            put(tree, tuple(key.split(".")), Given(value, "the command line"))
    keeper = SecretKeeper(environ, beside=file.parent)
    return fill(Settings, tree, keeper.fetch, fixed={"state": state})


def _state_directory(state: Path | None, environ: Mapping[str, str]) -> Path:
    home = environ.get(HOME)
    chosen = state or (Path(home) if home else Path("~/.finclaw"))
    try:
        directory = chosen.expanduser().absolute()
    except RuntimeError as error:  # no home directory
        raise ConfigError(f"cannot tell where {chosen} is: {error}; say it with --state DIR or {HOME}") from error
    if directory.exists() and not directory.is_dir():
        raise ConfigError(f"{directory} is a file, not a directory; choose another place with --state DIR or {HOME}")
    return directory


def _read_file(path: Path, *, required: bool) -> Tree:
    if not required and not path.exists():
        return {}
    from finclaw.config.document import read_document  # noqa: PLC0415  most runs have no file, and YAML is slow to load

    return read_document(path)


def _refuse_state(tree: Tree) -> None:
    if "state" in tree:
        raise ConfigError(f"{tree['state'].where}: the file cannot move the state; use --state DIR or {HOME}")


def _add_environment(tree: Tree, environ: Mapping[str, str]) -> None:
    known = {_variable(path): path for path in keys(Settings) if path != ("state",)}
    given = {name: value for name, value in environ.items() if name.startswith(PREFIX) and name not in NOT_SETTINGS}
    for name in given.keys() & known.keys():
        put(tree, known[name], Given(given[name], name, from_text=True))
    # A secret may well be kept in a variable with our prefix; it is known by being referred to.
    referred = {text.removeprefix("env:") for text in texts(Given(tree, "")) if text.startswith("env:")}
    unknown = sorted(given.keys() - known.keys() - referred)
    if unknown:
        raise ConfigError("; ".join(_unknown_variable(name, known) for name in unknown))


def _variable(path: tuple[str, ...]) -> str:
    return PREFIX + "__".join(path).upper()


def _unknown_variable(name: str, known: Mapping[str, object]) -> str:
    hint = did_you_mean(name, [*known, HOME]) or "; a nested key is spelled like FINCLAW_WEB__PORT"
    return f"the environment variable {name} sets nothing{hint}"
