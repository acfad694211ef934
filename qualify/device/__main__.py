"""`python -m assay.qualify.device BUNDLE`: device qualification where only the runtime, numpy and torch are."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .command import Options, qualify_device
from .errors import BadRequest
from .rows import parse_only


def main(arguments: list[str] | None = None) -> int:
    """Run one command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m assay.qualify.device", description=qualify_device.__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--device", default="cuda:0", help="cuda:N or hip:N; default: cuda:0")
    parser.add_argument(
        "--only", metavar="NAME=VALUE[,…]", action="append", default=[], help="a part: family and axis values"
    )
    parser.add_argument(
        "--evidence", type=Path, metavar="FILE", help="default: BUNDLE's name with .device.json or .retargeted.json"
    )
    parser.add_argument("--retarget", action="store_true", help="BUNDLE is a companion that assay retarget made")
    parser.add_argument("--json", dest="as_json", action="store_true", help="the result on standard output")
    given = parser.parse_args(arguments)
    try:
        only = parse_only(",".join(given.only))
    except BadRequest as error:
        parser.error(str(error))
    options = Options(
        bundle=given.bundle, device=given.device, only=only, evidence=given.evidence, as_json=given.as_json,
        retarget=given.retarget,
    )  # fmt: skip
    return qualify_device(options)


if __name__ == "__main__":
    sys.exit(main())
