import pytest

from tests.qualify.upgrading.wheels import BROKEN, make_wheel


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """A folder of wheels that pip is told to use, and nothing else: 1.0 imports, 2.0 does not."""
    folder = tmp_path_factory.mktemp("wheels")
    names = {"triton/backends/__init__.py": "", "triton/backends/compiler.py": "GPUTarget = 1\n"}
    make_wheel(folder, "1.0", {"triton/__init__.py": "", **names, "triton/compiler.py": "ASTSource = 1\n"})
    make_wheel(folder, "2.0", {"triton/__init__.py": BROKEN})
    patch = pytest.MonkeyPatch()
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(folder))
    yield folder
    patch.undo()
