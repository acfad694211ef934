import functools

import pytest

from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.records import Problem
from assay.codegen.render import Renderer
from assay.codegen.specs import load_specs
from assay.codegen.variants import make_variant
from tests.specs import TOY


@pytest.fixture(scope="session")
def make_variants():
    """All variants of a target, every candidate of every problem: `make_variants("sm90", specs=TOY)`."""

    @functools.cache
    def make(target, specs=TOY, profile="core", **only):
        loaded = load_specs(specs)
        renderer = Renderer(loaded.templates)
        return [
            make_variant(loaded.families[problem.family].model, loaded.target(target), candidate, renderer)
            for problem in expand(loaded, target, Selection(profile, only))
            if isinstance(problem, Problem)
            for candidate in candidates(loaded.families[problem.family].model, loaded.target(target), problem)
        ]

    return make
