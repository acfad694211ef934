"""What a device's verdict rests on: device, drivers, software, what else ran there, and what judged."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import assay.reference
from assay.runtime.drivers import Driver

_SECONDS = 20


def device_of(driver: Driver) -> dict[str, Any]:
    """The device: backend and architecture, and all that its driver tells of it."""
    backend, arch = driver.device
    return {"backend": backend, "arch": arch, **driver.describe()}


def software() -> dict[str, Any]:
    """Versions of what ran the cases, and a hash of the sources of cases and references."""
    import numpy as np
    import torch

    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
        "torch_hip": torch.version.hip,
        "system": f"{platform.system()} {platform.machine()}",
        "judged_by_sha256": hash_of_sources([*assay.reference.__path__, Path(__file__).parent]),
    }


def now() -> str:
    """The time in UTC."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def nvidia_smi(pci_address: str) -> dict[str, Any]:
    """The kernel driver's version, and other processes on the GPU; None for what nvidia-smi does not tell."""
    gpu = _query(pci_address, "--query-gpu=driver_version,power.limit")
    found = _query(pci_address, "--query-compute-apps=pid,process_name,used_memory")
    others = None if found is None else [row for row in found if row[0] != str(os.getpid())]
    names = ("kernel_driver_version", "power_limit")
    told = dict(zip(names, gpu[0], strict=False)) if gpu else dict.fromkeys(names)
    processes = None if others is None else [dict(zip(("pid", "name", "memory"), row, strict=False)) for row in others]
    return {**told, "other_processes": processes}


def _query(pci_address: str, what: str) -> list[list[str]] | None:
    command = ["nvidia-smi", what, "--format=csv,noheader", f"--id={pci_address}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]


def hash_of_sources(folders: Iterable[str | Path]) -> str:
    """SHA-256 over the Python files of folders, names and contents."""
    digest = hashlib.sha256()
    for path in (path for folder in folders for path in sorted(Path(folder).rglob("*.py"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
