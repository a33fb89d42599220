"""Counts the lines that a wheel installs, and fails when they are too many: python wheel_lines.py WHEEL MOST."""

import sys
from collections import Counter
from zipfile import ZipFile

wheel, most = sys.argv[1], int(sys.argv[2])
rooms: Counter[str] = Counter()
with ZipFile(wheel) as archive:
    names = [name for name in archive.namelist() if ".dist-info/" not in name]
    for name in names:
        folders = name.split("/")[:-1]
        rooms["/".join(folders[:2])] += archive.read(name).count(b"\n")
strangers = [name for name in names if name.startswith("tests/") or "/faults/" in name]
print(", ".join(f"{room} {lines}" for room, lines in sorted(rooms.items())))
print(f"{rooms.total()} lines installed, at most {most}")
if strangers:
    sys.exit(f"these belong beside the tests: {strangers}")
if rooms.total() > most:
    sys.exit("the wheel has more than the product, the test kit and the benchmarks may have")
