r"""A wheel as bytes that follow from its contents alone: the same on any machine, at any time, with any zlib.

    wheel         = zip of: file* dist-info                     ; named {name}-{version}-py3-none-any.whl
    dist-info     = METADATA WHEEL entry_points.txt RECORD      ; in {name}-{version}.dist-info/
    RECORD        = a line a file: path "," "sha256=" hash "," size LF, its own without hash and size
    hash          = base64url without padding

Each part is sorted by path. Every member is stored, not deflated (a bundle is compressed inside already, and what zlib
makes differs from build to build), dated 1980-01-01, with mode 0644, as written on Unix. Nothing names the assay that
wrote it. The format is the Python packaging guide's "Binary distribution format", version 1.0.
"""

from __future__ import annotations

import base64
import hashlib
import io
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field

_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
_MODE = stat.S_IFREG | 0o644
_UNIX = 3
_WHEEL = "Wheel-Version: 1.0\nGenerator: assay\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@dataclass(frozen=True, slots=True)
class WheelContents:
    """One wheel. name: normalised, with underscores; version: normalised. Both stand in file names as they are.

    metadata: the text of METADATA. entry_points: group -> name -> value. files: path from site-packages -> bytes.
    """

    name: str
    version: str
    metadata: str
    entry_points: Mapping[str, Mapping[str, str]] = field(hash=False)
    files: Mapping[str, bytes] = field(hash=False)

    @property
    def file_name(self) -> str:
        """What an installer expects the file to be called."""
        return f"{self.name}-{self.version}-py3-none-any.whl"


def wheel_bytes(contents: WheelContents) -> bytes:
    """The wheel file."""
    folder = f"{contents.name}-{contents.version}.dist-info"
    described = {
        f"{folder}/METADATA": contents.metadata.encode(),
        f"{folder}/WHEEL": _WHEEL.encode(),
        f"{folder}/entry_points.txt": _entry_points(contents.entry_points).encode(),
    }
    # The format recommends dist-info at the end, so that an installer finds it without reading the rest.
    members = dict(sorted(contents.files.items())) | dict(sorted(described.items()))
    return _zip(members | {f"{folder}/RECORD": _record(members, f"{folder}/RECORD").encode()})


def _entry_points(groups: Mapping[str, Mapping[str, str]]) -> str:
    lines = []
    for group, entries in sorted(groups.items()):
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in sorted(entries.items())), ""]
    return "\n".join(lines)


def _record(members: Mapping[str, bytes], own_path: str) -> str:
    lines = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in members.items()]
    return "\n".join([*lines, f"{own_path},,", ""])


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _zip(members: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for path, data in members.items():
            member = zipfile.ZipInfo(path, _FIRST_DATE)
            member.external_attr = _MODE << 16
            member.create_system = _UNIX
            archive.writestr(member, data)
    return made.getvalue()
