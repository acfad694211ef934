"""What a shell has set does not keep the emulator from starting."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path


def test_variables_that_tinygrad_takes_as_numbers_may_be_texts():
    helpers = Path(importlib.util.find_spec("tinygrad").origin).with_name("helpers.py").read_text()
    names = set(re.findall(r'(?:getenv|ContextVar)\(\s*"([A-Z][A-Z0-9_]*)"', helpers))
    assert {"PROFILE", "DEBUG"} <= names
    shell = {**dict.fromkeys(names, "full_sample"), **os.environ}
    said = "import os, assay.emulator; print(os.environ['PROFILE'], os.environ['DEBUG'])"
    done = subprocess.run([sys.executable, "-c", said], env=shell, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "full_sample full_sample\n"), done.stderr
