"""One virtual environment a peer, made when first needed and again when its list of packages changes."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ENVS = Path(__file__).parent / ".envs"

PACKAGES: dict[str, tuple[str, ...]] = {
    "sdk": ("anthropic==2.8.0", "openai==3.49.0", "aiohttp==3.14.5", "orjson==3.13.0"),
    "pydantic-ai": ("pydantic-ai-slim[openai,anthropic]==2.66.0",),
    "openai-agents": ("openai-agents==0.24.0",),
    "langchain": (
        "langchain==1.4.7",
        "langgraph==1.2.20",
        "langchain-openai==1.7.3",
        "langgraph-checkpoint-sqlite==3.1.2",
    ),
    "nanobot": ("nanobot-ai==0.3.5",),
}


@dataclass(frozen=True)
class Environment:
    """`missing` says why it could not be made; such a peer is reported, never left out."""

    python: Path
    missing: str = ""


def environment(name: str, *, uvloop: bool) -> Environment:
    if name == "own":  # FinClaw runs where this runs
        return Environment(Path(sys.executable))
    wanted = "\n".join((*PACKAGES[name], *(("uvloop",) if uvloop else ())))
    home = ENVS / name
    stamp = home / "packages.txt"
    python = home / "bin" / "python"
    if stamp.exists() and stamp.read_text() == wanted:
        return Environment(python)
    print(f"bench: making the environment {name} …", file=sys.stderr)
    complaint = _make(home, wanted.splitlines())
    if complaint:
        return Environment(python, missing=complaint)
    stamp.write_text(wanted)
    return Environment(python)


def _make(home: Path, packages: list[str]) -> str:
    """Empty when it went well, else the last thing that was said."""
    shutil.rmtree(home, ignore_errors=True)
    python = str(home / "bin" / "python")
    uv = shutil.which("uv")
    steps = (
        ([uv, "venv", "--quiet", "--python", sys.executable, str(home)], [uv, "pip", "install", "--python", python])
        if uv
        else ([sys.executable, "-m", "venv", str(home)], [python, "-m", "pip", "--no-input", "install"])
    )
    make, install = steps
    for step in (make, [*install, "--quiet", *packages]):
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            return (done.stderr.strip() or done.stdout.strip() or "failed without a word").splitlines()[-1]
    return ""
