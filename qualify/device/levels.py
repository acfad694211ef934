"""Levels of evidence: what was run, and on what."""

from __future__ import annotations

STATIC, INTERPRETED, EMULATED, RETARGETED, DEVICE = "static", "interpreted", "emulated", "retargeted", "device"

# From the weakest.  The binary was read; its source ran in Triton's interpreter; the binary ran on the CPU; its PTX was
# re-assembled for another GPU and ran there; it ran on the device that it is for.
LEVELS = (STATIC, INTERPRETED, EMULATED, RETARGETED, DEVICE)
# What comes by evidence files from where a device is, and not with the build.
ATTESTED = (DEVICE, RETARGETED)


def rank(level: str) -> tuple[int, str]:
    """The place of a level in lists; what is not known here comes last."""
    return (LEVELS.index(level) if level in LEVELS else len(LEVELS), level)
