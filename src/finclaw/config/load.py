"""Loading of the settings, once, at start: the file, then the environment, then the command line; the later wins.

Nobody else reads the file or the environment. Whatever is wrong is said in one line that tells where and what to do.
"""

import contextlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from finclaw.agent.settings import ExtensionRef, LocatedRef, as_ref
from finclaw.config.fill import BadSettings, Given, Tree, fill, keys, printable, put, texts
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.private_files import refuse_files_of_others
from finclaw.providers.settings import with_ollama_address, with_usual_keys
from finclaw.redaction import Follow, Secret, remember_secrets_in_address
from finclaw.text import did_you_mean

FILE_NAME = "finclaw.yaml"
PREFIX = "FINCLAW_"
HOME = "FINCLAW_HOME"
NOT_SETTINGS = frozenset({HOME, "FINCLAW_CRASH"})
"""The second is how the chaos tests tell a child where to die; nothing that is shipped to run reads it."""


def load_settings(
    *,
    state: Path | None = None,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
    only_looking: bool = False,
) -> Settings:
    """The settings as every command reads them. `environ` None: this process's own variables. `overrides` are the
    command line's, by dotted key; None means that the option was not given. `only_looking`: for who wants to see what
    is kept; keys that are not there do not matter, and none is read."""
    if environ is None:
        environ = os.environ
    found = gather(state=state, config=config, environ=environ, overrides=overrides, only_looking=only_looking)
    return found.settings()


# ── secrets: they are never in the file; a setting says where one is kept, `env:NAME` or `file:path` ─────────────


@dataclass(frozen=True, slots=True)
class SecretKeeper:
    """A resolver of references to secrets. `beside` is the directory from which a relative `file:` path counts.
    `only_looking`: nobody is going to be asked for anything, so no secret is read, and none need be there."""

    environ: Mapping[str, str] = field(repr=False)  # it holds secrets, and whoever prints a setting prints this
    beside: Path
    only_looking: bool = False

    def fetch(self, setting: str, reference: object) -> Secret:
        """The secret that the setting refers to. No message of ours repeats what the setting holds."""
        text = reference if isinstance(reference, str) else ""
        kind, _, name = text.partition(":")
        if self.only_looking and kind in ("env", "file"):
            with contextlib.suppress(ConfigError):  # where it can be read, it is hidden in what is shown
                self._read(setting, kind, name)
            return Secret("")
        if kind in ("env", "file") and name:
            return self._read(setting, kind, name)
        key = setting.rpartition(".")[2]
        variable = key.upper() if key.isidentifier() else "NAME"  # of one that somebody named we only know where it is
        raise ConfigError(
            f"{setting} must not hold the secret itself; write `{key}: env:{variable}` and set that variable, "
            f"or `{key}: file:PATH` with a file that only you can read"
        )

    def _read(self, setting: str, kind: str, name: str) -> Secret:
        if kind == "env":
            if not self.environ.get(name):
                raise ConfigError(f"{setting} refers to the environment variable {name}, which is not set; set it")
            return Secret(self.environ[name])
        path = self.beside / Path(name).expanduser()
        try:
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode):  # before opening: opening a pipe would wait for its other end
                raise ConfigError(f"{setting} refers to {path}, which is not a plain file; give the path of one")
            if mode & stat.S_IRWXO:
                raise ConfigError(f"{setting} refers to {path}, which everybody can open; run: chmod 600 {path}")
            value = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigError(f"{setting} refers to {path}, which cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"{setting} refers to {path}, which is not text; put only the secret into it") from error
        if not value:
            raise ConfigError(f"{setting} refers to {path}, which is empty; put the secret into it")
        return Secret(value)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Values and where they were set, before they are checked."""

    state: Path
    file: Path
    tree: Tree
    problems: tuple[str, ...]
    keeper: SecretKeeper

    def settings(self) -> Settings:
        """Raises BadSettings with every problem there is."""
        try:
            settings = fill(Settings, self.tree, self.keeper.fetch, fixed={"state": self.state})
        except BadSettings as error:
            raise BadSettings((*self.problems, *error.problems)) from error
        if self.problems:
            raise BadSettings(self.problems)
        for provider in settings.providers.values():
            remember_secrets_in_address(provider.base_url or "")
        beside = self.file.absolute().parent
        located = tuple(_locate(as_ref(each), beside, self.keeper.fetch) for each in settings.agent.extensions)
        agent = replace(settings.agent, extensions=located)
        providers = with_ollama_address(settings.providers, self.keeper.environ)
        return replace(settings, agent=agent, providers=with_usual_keys(providers, self.keeper.environ))


def gather(
    *,
    state: Path | None = None,
    config: Path | None = None,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    only_looking: bool = False,
) -> Gathered:
    """Raises ConfigError only where nothing can be gathered: no state directory, one with files of other users, or a
    file that cannot be read."""
    state = state_directory(state, environ)
    refuse_files_of_others(state)
    file = config or state / FILE_NAME
    tree: Tree = {}
    if config is not None or file.exists():
        from finclaw.config.document import read_document  # noqa: PLC0415  `cold_cpu`: YAML takes 16 ms

        tree = read_document(file)
    if "state" in tree:
        raise ConfigError(f"{tree['state'].where}: the file cannot move the state; use --state DIR or {HOME}")
    problems = _add_environment(tree, environ)
    for key, value in (overrides or {}).items():
        if value is not None:
            put(tree, tuple(key.split(".")), Given(value, "the command line"))
    return Gathered(state, file, tree, problems, SecretKeeper(environ, file.parent, only_looking))


def state_directory(state: Path | None, environ: Mapping[str, str]) -> Path:
    chosen = state or Path(environ.get(HOME) or "~/.finclaw")
    try:
        directory = chosen.expanduser().absolute()
    except RuntimeError as error:  # no home directory
        raise ConfigError(f"cannot tell where {chosen} is: {error}; say it with --state DIR or {HOME}") from error
    if any("\ud800" <= each <= "\udfff" for each in str(directory)):  # SQLite takes UTF-8 only
        shown = printable(str(directory), limit=200)
        raise ConfigError(f"the name of the state directory {shown} is not UTF-8 text; choose another with --state DIR")
    try:
        lowest = next(each for each in (directory, *directory.parents) if each.exists())
        problem = "" if lowest.is_dir() else f"{lowest} is a file, not a directory"
    except OSError as error:
        problem = f"cannot use the state directory {directory}: {error.strerror}"
    if problem:
        raise ConfigError(f"{problem}; choose another place with --state DIR or {HOME}")
    return directory


def _locate(ref: ExtensionRef, beside: Path, follow: Follow) -> LocatedRef:
    """A path in the file counts from the file, wherever the gateway is started."""
    use = ref.use
    try:
        if ref.is_path:
            use = str(beside / Path(use).expanduser())
        return LocatedRef(use, ref.settings, follow)
    except RuntimeError as error:  # nobody has that name
        says = f"agent.extensions: cannot tell where {printable(ref.use)} is: {error}; give the path"
        raise ConfigError(says) from error


def _add_environment(tree: Tree, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns what is wrong with the variables' names."""
    known = {PREFIX + "__".join(path).upper(): path for path in keys(Settings) if path != ("state",)}
    given = {name: value for name, value in environ.items() if name.startswith(PREFIX) and name not in NOT_SETTINGS}
    for name in given.keys() & known.keys():
        put(tree, known[name], Given(given[name], name, from_text=True))
    # A secret may well be kept in a variable with our prefix; it is known by being referred to.
    referred = {text.removeprefix("env:") for text in texts(Given(tree, "")) if text.startswith("env:")}
    unknown = sorted(given.keys() - known.keys() - referred)
    return tuple(_unknown_variable(name, known) for name in unknown)


def _unknown_variable(name: str, known: Mapping[str, object]) -> str:
    # The prefix they share would make any two of them look alike.
    hint = did_you_mean(name.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in (*known, HOME)])
    hint = hint.replace("mean ", f"mean {PREFIX}") or "; a nested key is spelled like FINCLAW_WEB__PORT; else unset it"
    return f"the environment variable {name} sets nothing{hint}"
