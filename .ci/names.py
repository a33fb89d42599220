"""Public names that are gone since the last tag, and that the changelog's topmost part does not name: none may be.

Public are the names of `sequencer.__all__` and `sequencer.errors`, and the commands.
"""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def names(commit: str) -> set[str]:
    """Read from the source: the last tag may need other packages than this tree."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(git("show", f"{commit}:sequencer/__init__.py"))):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            found |= set(ast.literal_eval(node.value))
    errors = ast.parse(git("show", f"{commit}:sequencer/errors.py"))
    found |= {node.name for node in errors.body if isinstance(node, ast.ClassDef)}
    for path in git("ls-tree", "-r", "--name-only", commit, "cli").split():
        for node in ast.walk(ast.parse(git("show", f"{commit}:{path}"))) if path.endswith(".py") else ():
            if isinstance(node, ast.FunctionDef) and any("command" in ast.unparse(one) for one in node.decorator_list):
                found.add(f"sequencer ... {node.name.strip('_').replace('_', '-')}")
    return found


def main() -> int:
    tag = git("describe", "--tags", "--abbrev=0").strip()
    if not tag:
        print("no tag yet: no public names to compare with")
        return 0
    said = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    gone = sorted(name for name in names(tag) - names("HEAD") if name.rpartition(" ")[2] not in said)
    if gone:
        print(f"gone since {tag}, and not in the changelog: {', '.join(gone)}")
    return int(bool(gone))


if __name__ == "__main__":
    sys.exit(main())
