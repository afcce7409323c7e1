"""`finclaw skills`: the skills of the agent, with the hash of each, so that two people can compare."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from finclaw.agent.settings import as_ref
from finclaw.builtins.skills.folder import CODE_FILE, RECORD, SKILL_FILE, read_folder, record_of
from finclaw.builtins.skills.skill import BadSkill, read_skill
from finclaw.builtins.skills.skill_directory import add, remove
from finclaw.cli.arguments import add_json_option, settings_from, start_actions
from finclaw.cli.formatting import fit_table, plural, print_result, short, yes_or_no
from finclaw.clock import SystemClock

_HEAD = ("SKILL", "HASH", "USED", "CODE", "FROM", "ABOUT")
_Given = Mapping[str, Any] | None
_NAMES = ("skills", "finclaw.builtins.skills")


class SkillView(Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    sha256: str = ""
    enabled: bool = False
    code: bool = False
    source: str = ""  # where it was added from; empty for one that was put there by hand
    changed: bool = False  # since it was added
    withheld: bool = False
    """Its words were changed since it was added, so it is not given, whatever the settings say."""
    problem: str = ""


def arguments(parser: ArgumentParser) -> None:
    add_action = start_actions(parser)
    add_json_option(add_action("list", "list the skills: what each is about, its hash, and whether it is used", _list))
    action = add_action("add", "copy a skill's folder into the gateway's own, and show what is in it", _add)
    action.add_argument("path", type=Path, metavar="PATH", help="a folder with a SKILL.md; it is copied")
    action.add_argument("--force", action="store_true", help="replace the skill of that name")
    add_json_option(action)
    action = add_action("remove", "remove a skill", _remove)
    action.add_argument("name", metavar="NAME", help="the skill, as `finclaw skills list` has it")
    action.add_argument("--force", action="store_true", help="also one that was put there by hand")
    add_json_option(action)


def run(args: Namespace) -> None:
    settings = settings_from(args)
    # What the settings tell the extension; None where it is not listed, and so nothing is used.
    refs = map(as_ref, settings.agent.extensions)
    given = next((each.settings for each in refs if each.use in _NAMES), None)
    directory = Path(str((given or {}).get("directory") or settings.state / "skills")).expanduser().absolute()
    args.act(args, directory, given)


def _list(args: Namespace, directory: Path, given: _Given) -> None:
    views = list(_views(directory, given))
    print_result(args, {"directory": str(directory), "skills": views}, _lines(views, directory))


def _remove(args: Namespace, directory: Path, _: _Given) -> None:
    remove(args.name, directory, force=args.force)
    print_result(args, {"removed": args.name}, [f"{args.name} is removed"])


def _add(args: Namespace, directory: Path, given: _Given) -> None:
    added = add(args.path.expanduser(), directory, SystemClock().now(), force=args.force)
    view = _view(directory / added.skill.name, given)
    files = {name: len(content) for name, content in sorted(added.contents.files.items())}
    lines = [
        f"{'replaced' if added.replaced else 'added'} {view.name}: {short(view.description, 200)}",
        f"sha256 {view.sha256}",
        *(f"  {name} ({size:,} bytes)" for name, size in files.items()),
    ]
    if view.code:
        lines.append(f"it brings Python code in {CODE_FILE}: read it; it runs only with `code: true` in the settings")
    if given is None:
        lines.append(f"to use it, list in agent.extensions: {{use: skills, settings: {{directory: {directory}}}}}")
    elif not view.enabled:
        lines.append("the settings leave it out; add it to `enabled` of the extension `skills`")
    print_result(args, {"skill": view, "files": files, "replaced": added.replaced}, lines)


def _views(directory: Path, given: _Given) -> Iterator[SkillView]:
    if not directory.is_dir():
        return
    for path in sorted(each for each in directory.iterdir() if not each.name.startswith(".")):
        if path.is_dir():
            yield _view(path, given)
        elif path.suffix == ".md" and path.is_file() and not path.is_symlink():
            used = _is_enabled(path.stem, given)
            yield SkillView(name=path.stem, description="(a text, given when its words are said)", enabled=used)


def _view(folder: Path, given: _Given) -> SkillView:
    try:
        contents = read_folder(folder)
        skill = read_skill(folder.name, contents.text(SKILL_FILE))
    except (BadSkill, OSError) as error:
        return SkillView(name=folder.name, problem=str(error))
    view = SkillView(
        name=skill.name,
        description=skill.description,
        sha256=contents.digest,
        enabled=_is_enabled(skill.name, given),
        code=contents.has_code,
    )
    if (record := record_of(folder)) is None:
        return view
    withheld = not record.is_of(contents.files[SKILL_FILE])
    return replace(view, source=record.source, changed=record.sha256 != contents.digest, withheld=withheld)


def _is_enabled(name: str, given: _Given) -> bool:
    return given is not None and (given.get("enabled") is None or name in given["enabled"])


def _lines(views: list[SkillView], directory: Path) -> Iterator[str]:
    if not views:
        yield f"there are no skills in {directory}; add one with: finclaw skills add PATH"
        return
    if good := [each for each in views if not each.problem]:
        yield from fit_table([_HEAD, *map(_row, good)])
    for each in (view for view in views if view.withheld):
        yield (
            f"{short(each.name, 50)} is not given: its SKILL.md was changed since it was added. Read it; then "
            f"`finclaw skills add PATH --force` adds it anew, or remove {directory / each.name / RECORD} if the "
            "change is your own"
        )
    if bad := [each for each in views if each.problem]:
        yield f"{plural(len(bad), 'folder')} cannot be used:"
        yield from (f"  {short(each.name, 60)}: {short(each.problem, 400)}" for each in bad)


def _row(view: SkillView) -> tuple[str, ...]:
    source = short(view.source, 40) or "by hand"
    if view.changed:
        source += " (changed since)"
    return (
        short(view.name, 50),
        view.sha256[:12] or "-",
        yes_or_no(view.enabled and not view.withheld),
        yes_or_no(view.code),
        source,
        short(view.description, 80),
    )
