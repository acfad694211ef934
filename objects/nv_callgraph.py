"""Which device functions a kernel's code can reach inside one CUBIN.

A separately compiled device function has a section of its own, so a kernel whose callee spills shows no local
load itself. `.nv.callgraph` holds pairs of symbol indices `(caller, callee)`, in groups that start with a pair
`(0, marker)`: direct calls, address taken, indirect callers and their possible targets (measured with nvlink
13.0 on direct, recursive and indirect calls). Pairs of two functions are edges in every group.
"""

from __future__ import annotations

import struct

from assay.objects.cubin import Function
from assay.objects.elf import Elf

_PAIR = struct.Struct("<II")


def reachable(elf: Elf, functions: dict[int, Function]) -> dict[str, frozenset[str]]:
    """Kernel name → names of itself and of every function of the file that it may call, at any depth.

    Raises ObjectError if the call graph's section is not whole pairs.
    """
    edges = _edges(elf, functions)
    return {
        function.name: frozenset(functions[i].name for i in _closure(index, edges))
        for index, function in functions.items()
        if function.is_kernel
    }


def _edges(elf: Elf, functions: dict[int, Function]) -> dict[int, set[int]]:
    edges: dict[int, set[int]] = {}
    section = elf.section(".nv.callgraph")
    if section is None:
        return edges
    raw = elf.contents(section)
    if len(raw) % _PAIR.size:
        raise elf.error(section.name, f"{len(raw)} bytes", f"a multiple of {_PAIR.size}")
    for caller, callee in _PAIR.iter_unpack(raw):
        if caller in functions and callee in functions:
            edges.setdefault(caller, set()).add(callee)
    return edges


def _closure(start: int, edges: dict[int, set[int]]) -> set[int]:
    seen = {start}
    waiting = [start]
    while waiting:
        for callee in edges.get(waiting.pop(), ()):
            if callee not in seen:
                seen.add(callee)
                waiting.append(callee)
    return seen
