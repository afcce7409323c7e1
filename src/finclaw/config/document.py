"""The YAML file, read strictly: every value keeps its line, and whatever YAML would quietly guess is refused."""

from pathlib import Path
from typing import cast

import yaml

from finclaw.config.fill import Given, Tree, printable
from finclaw.errors import ConfigError


def read_document(path: Path) -> Tree:
    """The file as a tree of values with their lines. An empty file is an empty tree."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        advice = "name another with --config FILE, or let `finclaw init` write one"
        raise ConfigError(f"cannot read the settings file {path}: {error.strerror}; {advice}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    return _Reader(path).tree(text)


_ADVICE = {
    "'\\t'": "a tab stands there; indent with spaces",
    "<stream end>": "the file ends in the middle of something; close the bracket, brace or quote",
    "end of stream": "the file ends in the middle of something; close the bracket, brace or quote",
    "another document": "there are two documents; remove the line `---` and what you do not need",
    "constructor for the tag": "a tag like `!name` stands there; write the plain value",
    "undefined alias": "`*` begins an alias; put the value in quotes",
    "mapping values are not allowed": "too much indentation, or a second colon on the line: put such a value in quotes",
}
"""The parser's words are for those who write parsers."""


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: set[int] = set()

    def tree(self, text: str) -> Tree:
        try:
            loader = yaml.SafeLoader(text)
            root = loader.get_single_node()
            if root is None:
                return {}
            given = self._read_node(loader, root)
        except yaml.MarkedYAMLError as error:
            place = str(self._path)
            if mark := error.problem_mark or error.context_mark:
                place += f" line {mark.line + 1}"
            said = str(error.problem)
            unknown = f"{printable(said)}; look there and on the line above for a missing colon, quote or bracket"
            problem = next((advice for part, advice in _ADVICE.items() if part in said), unknown)
            raise ConfigError(f"{place}: not valid YAML: {problem}") from error
        except yaml.YAMLError as error:
            raise ConfigError(f"{self._path}: not valid YAML: {str(error).splitlines()[0]}; remove it") from error
        if given.value is None:
            return {}
        if given.section is None:
            raise ConfigError(f"{given.where}: write settings as `key: value` lines, such as `market: demo`")
        return given.section

    def _read_node(self, loader: yaml.SafeLoader, node: yaml.Node) -> Given:
        where = self._where(node)
        if id(node) in self._seen:  # an alias repeats its node, and may even contain itself
            raise ConfigError(f"{where}: anchors and aliases are not supported here; write the value out")
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return Given(self._mapping(loader, node), where)
        if isinstance(node, yaml.SequenceNode):
            return Given([self._read_node(loader, each) for each in node.value], where)
        return Given(self._scalar(loader, node), where)

    def _mapping(self, loader: yaml.SafeLoader, node: yaml.MappingNode) -> Tree:
        tree: Tree = {}
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self._scalar(loader, key_node)
            if not isinstance(key, str):
                raise ConfigError(f"{self._where(key_node)}: a key must be a word; put it in quotes if it is meant so")
            if key in tree:
                again = f"{printable(key)} is already set in line {first_lines[key]}"
                raise ConfigError(f"{self._where(key_node)}: {again}; keep one of the two")
            first_lines[key] = key_node.start_mark.line + 1
            given = self._read_node(loader, value_node)
            # A value may begin below its key; the key's line is where a person looks.
            tree[key] = Given(given.value, self._where(key_node))
        return tree

    def _scalar(self, loader: yaml.SafeLoader, node: yaml.Node) -> object:
        try:
            return cast(object, loader.construct_object(node, deep=True))  # pyright: ignore[reportUnknownMemberType]
        except ValueError as error:
            says = f"this value cannot be read ({printable(str(error))}); put it in quotes"
            raise ConfigError(f"{self._where(node)}: {says}") from error

    def _where(self, node: yaml.Node) -> str:
        return f"{self._path} line {node.start_mark.line + 1}"
