"""The specs that assay ships, as data: targets, profiles, kernel families and their templates."""

from pathlib import Path

DIRECTORY = Path(__file__).parent
