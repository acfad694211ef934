"""A template that cannot be rendered is named with its line; an undefined name is never an empty text."""

import pytest

from assay.codegen.render import Renderer, TemplateError


@pytest.fixture
def render(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "templates").mkdir()

    def run(text, values, **others):
        for name, content in {"main": text, **others}.items():
            (tmp_path / "templates" / f"{name}.j2").write_text(content)
        return Renderer(tmp_path / "templates").render("main.j2", values)

    return run


def fault_of(render, *arguments, **others):
    with pytest.raises(TemplateError) as caught:
        render(*arguments, **others)
    (fault,) = caught.value.faults
    return str(fault)


def test_rendered_text_is_kept_to_the_last_newline_and_not_escaped(render):
    assert render("{{ a }} < 'b'\n", {"a": "<&>"}) == "<&> < 'b'\n"


def test_a_syntax_error_names_template_and_line(render):
    said = fault_of(render, "one\n{% if x %}\n{% endfor %}\n", {"x": 1})
    assert said.startswith("templates/main.j2:3: Encountered unknown tag 'endfor'.")
    assert said.endswith("allowed: a valid Jinja template")


def test_an_undefined_name_names_template_line_and_what_is_defined(render):
    said = fault_of(render, "one\n\n{{ head_dmi }}\n", {"head_dim": 128, "gqa": 4})
    assert said == "templates/main.j2:3: UndefinedError: 'head_dmi' is undefined; allowed: gqa, head_dim"


def test_an_undefined_name_in_a_condition_is_an_error_too(render):
    assert "main.j2:2: UndefinedError" in fault_of(render, "\n{% if windw %}x{% endif %}", {"window": True})


def test_an_error_in_an_included_template_names_that_one(render):
    text = '{% from "macros.j2" import twice with context %}\n{{ twice() }}\n'
    macros = "{% macro twice() %}\n\n{{ nothing }}\n{% endmacro %}"
    assert fault_of(render, text, {"a": 1}, macros=macros).startswith("templates/macros.j2:3: UndefinedError")
    broken = "{% macro twice() %}\n{% endfi %}"
    assert fault_of(render, text, {"a": 1}, macros=broken).startswith("templates/macros.j2:2: ")


def test_a_missing_include_names_the_templates_there_are(render):
    said = fault_of(render, '{% include "lost.j2" %}', {})
    assert said == "templates: no template 'lost.j2'; allowed: main.j2"


@pytest.mark.parametrize(
    "expression", ["1 // 0", "'a' + 1", "[1][5].x", "range(10 ** 9) | list | length if false else 1 % 0"]
)
def test_an_expression_that_fails_names_its_line(render, expression):
    assert fault_of(render, "\n\n{{ " + expression + " }}", {}).startswith("templates/main.j2:3: ")


BY_CHANCE = {
    "a choice by chance": ("{{ [1, 2, 3] | random }}", "No filter named 'random'"),
    "text by chance": ("{{ lipsum() }}", "'lipsum' is undefined"),
    "a method without its brackets": ("{{ name.upper }}", "a builtin_function_or_method has no text"),
    "a macro without its brackets": ("{% macro m() %}{% endmacro %}{{ m }}", "a Macro has no text"),
    "an object's address": ("{{ joiner() }}", "has no text"),
    "another object's address": ("{{ cycler(1, 2) }}", "has no text"),
    "a hash that differs by process": ("{{ name.__hash__() }}", "unsafe"),
    "whatever Python has": ("{{ name.__class__.__mro__ }}", "unsafe"),
}


@pytest.mark.parametrize("name", BY_CHANCE)
def test_what_gives_another_text_each_time_is_an_error_with_its_line(render, name):
    text, said = BY_CHANCE[name]
    fault = fault_of(render, f"one\n{text}\n", {"name": "x"})
    assert fault.startswith("templates/main.j2:2: ")
    assert said in fault


def test_what_is_the_same_each_time_is_printed(render):
    text = (
        "{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}{{ twice(1) }} {{ name.upper() }} {{ [1, 'a'] }} {{ none }} "
    )
    assert render(text + "{{ range(3) | list }} {{ 1.5 }} {{ true }}", {"name": "x"}) == (
        "11 X [1, 'a'] None [0, 1, 2] 1.5 True"
    )
