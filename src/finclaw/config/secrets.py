"""Secrets are never in the file: a setting says where one is kept, `env:NAME` or `file:path`."""

import contextlib
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from finclaw.errors import ConfigError
from finclaw.redaction import Secret


@dataclass(frozen=True, slots=True)
class SecretKeeper:
    """A resolver of references to secrets. `beside` is the directory from which a relative `file:` path counts.

    `only_looking`: nobody is going to be asked for anything, so no secret is read, and none need be there.
    """

    environ: Mapping[str, str] = field(repr=False)  # it holds secrets, and whoever prints a setting prints this
    beside: Path
    only_looking: bool = False

    def fetch(self, setting: str, reference: object) -> Secret:
        """The secret that the setting refers to. No message of ours repeats what the setting holds."""
        kind, _, name = reference.partition(":") if isinstance(reference, str) else ("", "", "")
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
            return self._from_environment(setting, name)
        return self._from_file(setting, self.beside / Path(name).expanduser())

    def _from_environment(self, setting: str, name: str) -> Secret:
        value = self.environ.get(name, "")
        if not value:
            raise ConfigError(f"{setting} refers to the environment variable {name}, which is not set; set it")
        return Secret(value)

    def _from_file(self, setting: str, path: Path) -> Secret:
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
