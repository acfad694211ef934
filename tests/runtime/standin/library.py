"""A stand-in library, compiled and steered from a test."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent
# EF_AMDGPU_MACH of gfx12, and how CUDA 13 writes an sm number.
_AMD_FLAGS = {"gfx1200": 0x48, "gfx1201": 0x4E}
_size = ctypes.c_size_t


class Launch(ctypes.Structure):
    """LaunchRecord of standin.h."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3), ("threads", ctypes.c_uint32 * 3), ("shared", ctypes.c_uint32),
        ("size", ctypes.c_uint32), ("stream", ctypes.c_uint64), ("device", ctypes.c_int32),
        ("_symbol", ctypes.c_char * 128), ("_block", ctypes.c_ubyte * 1024),
    )  # fmt: skip

    @property
    def symbol(self) -> str:
        return self._symbol.decode()

    @property
    def block(self) -> bytes:
        return bytes(self._block[: self.size])


Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(Launch))


def compiler() -> str:
    """The system's C compiler; skips the test where there is none."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        pytest.skip("no C compiler here, and the stand-in drivers are C")
    return found


def compile_standin(vendor: str, out: Path, *, without: tuple[str, ...] = ()) -> Path:
    """The stand-in of 'cuda' or 'hip' as a shared library, without some of its functions."""
    flags = ["-O1", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror", "-shared", "-fPIC", "-pthread"]
    command = [
        compiler(),
        *flags,
        *(f"-D{name}=hidden_{name}" for name in without),
        str(SOURCES / f"{vendor}.c"),
        "-o",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def code_object(arch: str, seed: str) -> bytes:
    """An ELF header for the architecture, and bytes that tell one object from another."""
    nvidia = arch.startswith("sm_")
    flags = int(arch[3:].rstrip("a")) << 8 if nvidia else _AMD_FLAGS[arch]
    body = seed.encode().ljust(200, b".")
    return struct.pack(
        "<4sBBBBB7xHHIQQQIHHHHHH",
        b"\x7fELF", 2, 1, 1, 0x41 if nvidia else 0x40, 8 if nvidia else 4, 3, 190 if nvidia else 224, 1, 0, 0,
        64 + len(body), flags, 64, 56, 0, 64, 0, 0,
    ) + body  # fmt: skip


class Standin:
    """One loaded stand-in.  `reset` before each use: its state is the process's."""

    def __init__(self, vendor: str, path: Path):
        self.vendor = vendor
        self.path = path
        self.library = ctypes.CDLL(str(path))
        self.library.standin_call.restype = ctypes.c_char_p
        self.library.standin_launch.restype = ctypes.POINTER(Launch)
        self.library.standin_stream.restype = ctypes.c_uint64
        self._kept: list[object] = []

    def reset(self, *archs: str, shared_limit: int | None = None, processors: int = 32) -> None:
        """Forget everything; the devices are of these architectures."""
        self.library.standin_reset()
        if self.vendor == "cuda":
            self.library.standin_forget_contexts()
        else:
            self.library.standin_set_current(0)
            self.library.hipGetLastError()
        limit = shared_limit or (101376 if self.vendor == "cuda" else 65536)
        for arch in archs:
            self.library.standin_device(arch.encode(), limit, processors)
        self._kept.clear()

    def announce(self, code: bytes, symbol: str, arch: str, arguments, *, threads: int = 1024, static: int = 0) -> int:
        """Say what is in a code object: arguments as (offset, size); threads: the most that a workgroup may have."""
        count = len(arguments)
        offsets, sizes = ((_size * count)(*(pair[at] for pair in arguments)) for at in (0, 1))
        return self.library.standin_object(
            code, _size(len(code)), arch.encode(), symbol.encode(), threads, static, count, offsets, sizes
        )

    def fail(self, function: str, status: int, nth: int = 1) -> None:
        """Its nth call from now on fails, or every one (-1)."""
        self.library.standin_fail(function.encode(), nth, status)

    def on_launch(self, callback: Callable[[int, Launch], int]) -> None:
        """Called with the code object's number and the launch; returns a status."""
        hook = Callback(lambda number, launch: callback(number, launch.contents))
        self._kept.append(hook)
        self.library.standin_on_launch(hook)

    def stream(self, device: int) -> int:
        """A stream's handle."""
        return self.library.standin_stream(device)

    @property
    def calls(self) -> list[str]:
        """Names of the driver's functions that were called, in order."""
        return [self.library.standin_call(at).decode() for at in range(self.library.standin_calls())]

    def count(self, function: str) -> int:
        return Counter(self.calls)[function]

    @property
    def launches(self) -> list[Launch]:
        return [self.library.standin_launch(at).contents for at in range(self.library.standin_launches())]

    @property
    def current(self) -> int:
        """This thread's current device; -1 without one (CUDA), 8 and up: another library's context (CUDA)."""
        return self.library.standin_current()

    @current.setter
    def current(self, device: int) -> None:
        self.library.standin_set_current(device)

    @property
    def live_modules(self) -> int:
        return self.library.standin_live_modules()

    @property
    def live_blocks(self) -> int:
        return self.library.standin_live_blocks()

    @property
    def early_readers(self) -> int:
        """Launches on streams that need not wait for memory that was still being filled."""
        return self.library.standin_early_readers()

    @property
    def forked_calls(self) -> int:
        """Calls in a process that was forked off from the one that started the driver."""
        return self.library.standin_forked_calls()

    def set_kind(self, address: int, kind: str) -> None:
        """What memory at an allocation's start is: 'host' (registered), 'device' or 'managed'."""
        number = {"host": 1, "device": 2, "managed": 3}[kind]
        self.library.standin_set_kind(ctypes.c_void_p(address), number)

    def blocks(self) -> list[tuple[int, int]]:
        """Device memory in use, as (address, bytes)."""
        found, at = [], 0
        start, size = ctypes.c_uint64(), _size()
        while at < 4096:
            if self.library.standin_block(at, ctypes.byref(start), ctypes.byref(size)):
                found.append((start.value, size.value))
            at += 1
        return found
