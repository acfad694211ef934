"""Probes of `assay doctor`: GPUs of this machine, from what the kernel drivers say of them.  No GPU is touched."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from .findings import Finding, ask_python

# A driver library that crashes when it is loaded must not end the doctor.
_ASK_LIBCUDA = """
import ctypes
try:
    library = ctypes.CDLL("libcuda.so.1")
except OSError:
    print("absent")
else:
    version = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    print(f"CUDA {version.value // 1000}.{version.value % 1000 // 10}")
"""


def nvidia(root: Path = Path("/")) -> Iterator[Finding]:
    """The kernel driver and the GPUs that it lists, then the library that programs use."""
    driver = root / "proc/driver/nvidia"
    version = driver / "version"
    if not version.is_file():
        yield Finding("nvidia", "absent", "no NVIDIA driver is loaded; building needs none")
        return
    said = re.search(r"Kernel Module\s+(?:for \S+\s+)?([\d.]+)", version.read_text(errors="replace"))
    yield Finding("nvidia driver", "ok", said[1] if said else "loaded, of unknown version")
    models = [
        line.partition(":")[2].strip()
        for path in sorted(driver.glob("gpus/*/information"))
        for line in path.read_text(errors="replace").splitlines()
        if line.startswith("Model:")
    ]
    state, hint = ("ok", "") if models else ("warning", "the driver is loaded and lists no GPU; see dmesg")
    yield Finding("nvidia GPUs", state, ", ".join(models) or "none", hint)
    yield _libcuda()


def _libcuda() -> Finding:
    answer = ask_python(_ASK_LIBCUDA)
    if answer.works and answer.text != "absent":
        return Finding("libcuda", "ok", answer.text)
    said = "libcuda.so.1 is not found" if answer.works else f"libcuda.so.1 cannot be asked: {answer.text}"
    return Finding("libcuda", "warning", said, "install the driver's user-space part")


def amd(root: Path = Path("/")) -> Iterator[Finding]:
    """The compute device and the GPUs of the kernel driver's topology."""
    device = root / "dev/kfd"
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    architectures = [name for path in sorted(nodes.glob("*/properties")) if (name := _architecture(path))]
    if not device.exists() and not architectures:
        yield Finding("amd", "absent", "no AMD compute driver is loaded; building needs none")
        return
    if not device.exists():
        yield Finding("amd /dev/kfd", "warning", "missing, though the driver lists GPUs", "pass /dev/kfd in")
    elif not os.access(device, os.R_OK | os.W_OK):
        yield Finding("amd /dev/kfd", "warning", "may not be opened", "add this user to the group that owns it: render")
    else:
        yield Finding("amd /dev/kfd", "ok", "can be opened")
    state, hint = ("ok", "") if architectures else ("warning", "the driver is loaded and lists no GPU; see dmesg")
    yield Finding("amd GPUs", state, ", ".join(architectures) or "none", hint)


def _architecture(properties: Path) -> str | None:
    """`gfx_target_version 120001` is gfx1201: major, minor and stepping at two decimal digits, the last two in
    hexadecimal (amdkfd, kfd_topology.c).  0 is a processor."""
    found = re.search(r"^gfx_target_version (\d+)$", properties.read_text(errors="replace"), re.MULTILINE)
    version = int(found[1]) if found else 0
    if not version:
        return None
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
