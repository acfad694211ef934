"""Puts source text next to the line marks that a compiler leaves in assembly."""

from __future__ import annotations

import re

# LLVM: `.loc 1 12 18   ; <rendered 0123>:12:18`; nvdisasm: `//## File "<rendered 0123>", line 12`.  Code inlined from
# elsewhere names the rendered line last, as the place that it was inlined at.
_MARK = re.compile(r"^\s*(\.loc\s|//## File )")
_LINE = re.compile(r'<rendered [0-9a-f]+>(?:"?, line |:)(\d+)')


def with_source_lines(assembly: str, source: str, comment: str) -> str:
    """`assembly` with each line mark followed by the source line it stands for, once a change of line.

    comment: what begins a comment in this assembly, `;` or `//`.  Marks of nothing in `source` stay as they are.
    """
    lines = source.splitlines()
    result: list[str] = []
    last = 0
    for line in assembly.splitlines():
        result.append(line)
        if not _MARK.match(line):
            continue
        numbers = [int(number) for number in _LINE.findall(line)]
        if numbers and numbers[-1] != last and 0 < numbers[-1] <= len(lines):
            last = numbers[-1]
            result.append(f"{comment} {last:>4}: {lines[last - 1]}")
    return "\n".join(result) + "\n"
