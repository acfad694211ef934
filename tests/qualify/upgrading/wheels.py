"""Wheels made up for tests, so that environments are made with pip and without a package index."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import sysconfig
import zipfile
from pathlib import Path

BROKEN = "raise ImportError('libtriton.so: undefined symbol')\n"
# Has what a worker imports, and no more: a compiler that is there and cannot compile.
_REFUSES = """
import inspect

def jit(function):
    function.arg_names = list(inspect.signature(function).parameters)
    return function

def compile(*_, **__):
    raise RuntimeError("no such pass")
"""
HOLLOW = {
    "triton/__init__.py": _REFUSES,
    "triton/language.py": "class constexpr: pass\n",
    "triton/compiler.py": "class ASTSource:\n    def __init__(*_): pass\n",
    "triton/backends/__init__.py": "",
    "triton/backends/compiler.py": "class GPUTarget:\n    def __init__(*_): pass\n",
}
_BORROWED = "borrowed.pth"


def make_wheel(folder: Path, version: str, files: dict[str, str]) -> Path:
    """A wheel of `triton`: files by their place in it."""
    info = f"triton-{version}.dist-info"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: triton\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={_digest(text)},{len(text.encode())}\n" for name, text in contents.items())
    path = folder / f"triton-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**contents, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(name, text)
    return path


def borrowing_wheel(folder: Path, version: str) -> Path:
    """The compiler of this process under another version, with the packages of this process behind it."""
    real = importlib.metadata.distribution("triton")
    package = Path(str(real.locate_file("triton")))
    init = (
        f"__path__.insert(0, {str(package)!r})\n"
        f"real = {str(package / '__init__.py')!r}\nexec(compile(open(real).read(), real, 'exec'))\n"
    )
    entry_points = f"triton-{version}.dist-info/entry_points.txt"
    return make_wheel(
        folder,
        version,
        {
            "triton/__init__.py": init,
            _BORROWED: f"{sysconfig.get_path('purelib')}\n",
            entry_points: real.read_text("entry_points.txt") or "",
        },
    )


def hollow_wheel(folder: Path, version: str) -> Path:
    """One that imports, with the packages of this process behind it, and compiles nothing."""
    return make_wheel(folder, version, {**HOLLOW, _BORROWED: f"{sysconfig.get_path('purelib')}\n"})


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
