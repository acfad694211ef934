"""What a serving engine pays for `import assay.runtime`."""

import os
import subprocess
import sys
import time

import pytest


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Byte code is kept, as on any installed machine; here it may be switched off."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return environment | {"PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("pycache"))}


def run(code, environment):
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


LIST = "import sys; before = set(sys.modules); import assay.runtime; print(*(set(sys.modules) - before))"


def test_the_runtime_imports_the_standard_library_and_the_bundle_reader_alone(environment):
    modules = run(LIST, environment)
    foreign = {m for m in modules if m.split(".")[0] not in sys.stdlib_module_names | {"assay"}}
    assert not foreign
    ours = {m for m in modules if m.startswith("assay.")}
    assert {".".join(m.split(".")[:2]) for m in ours} == {"assay.runtime", "assay.bundle"}
    assert not ours & {"assay.bundle.writer", "assay.bundle.verify", "assay.bundle.atomic", "assay.bundle.validate"}


def test_the_runtime_imports_nothing_slow_that_it_needs_only_when_something_fails(environment):
    assert not {"logging", "difflib", "tempfile", "subprocess", "concurrent.futures"} & set(run(LIST, environment))


def test_importing_the_runtime_takes_about_14_ms(environment):
    def once(code):
        start = time.perf_counter()
        run(code, environment)
        return time.perf_counter() - start

    once("import assay.runtime")  # Writes the byte code.
    rounds = [(once("pass"), once("import assay.runtime")) for _ in range(7)]
    cost = min(with_it for _, with_it in rounds) - min(without for without, _ in rounds)
    # Measured 14 ms, nine of them the standard library's; the bound leaves room for a machine busy with other tests.
    assert cost < 0.040
