"""Jinja templates to Triton source text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox

from assay.bundle.faults import Fault, FaultsError

from .specs import display_path


class TemplateError(FaultsError):
    """A template that cannot be rendered; names template and line."""


class _Loader(jinja2.FileSystemLoader):
    """Serves `*.j2` directly in the folder and nothing else: the hash of the specs covers only those."""

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        if not _is_served(template):
            # Not TemplateNotFound, which `ignore missing` would swallow.
            raise _unknown(Path(self.searchpath[0]), template, self.list_templates())
        return super().get_source(environment, template)

    def list_templates(self) -> list[str]:
        return [name for name in super().list_templates() if _is_served(name)]


def _is_served(name: str) -> bool:
    return name.endswith(".j2") and "/" not in name and "\\" not in name


def _unknown(templates: Path, name: str | None, known: list[str]) -> TemplateError:
    hint = "" if name and _is_served(name) else "only *.j2 directly in this folder are templates"
    return TemplateError(Fault(display_path(templates), f"no template {name!r}", ", ".join(sorted(known)), hint))


# What Jinja offers and gives another text each time.
_BY_CHANCE_FILTERS, _BY_CHANCE_GLOBALS = ("random",), ("lipsum",)


def _environment(templates: Path) -> jinja2.Environment:
    """One in which equal values give equal text: without chance, without addresses of objects.

    The sandbox keeps names that begin with an underscore out of reach: `__hash__` differs by process, for one.
    """
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        loader=_Loader(templates),
        undefined=jinja2.StrictUndefined,
        finalize=_text_of,
        keep_trailing_newline=True,
        autoescape=False,  # the output is Python, not HTML
    )
    for name in _BY_CHANCE_FILTERS:
        del environment.filters[name]
    for name in _BY_CHANCE_GLOBALS:
        del environment.globals[name]
    return environment


def _text_of(value: Any) -> Any:
    """What a template prints.  A method without its brackets, or an object, would be its address in memory."""
    if isinstance(value, jinja2.Undefined):
        return value
    if callable(value) or type(value).__repr__ is object.__repr__:
        raise TypeError(f"a {type(value).__name__} has no text that is the same each time")
    return value


class Renderer:
    """Renders the templates of one directory.  An undefined name is an error, never an empty string."""

    def __init__(self, templates: Path):
        self._templates = templates
        self._environment = _environment(templates)

    def render(self, template: str, values: dict[str, Any]) -> str:
        """The source text for one candidate.  Raises TemplateError with template and line."""
        try:
            return self._environment.get_template(template).render(values)
        except jinja2.TemplateSyntaxError as error:
            where = f"{display_path(self._templates / (error.name or template))}:{error.lineno}"
            raise TemplateError(Fault(where, error.message or "a syntax error", "a valid Jinja template")) from None
        except jinja2.TemplateNotFound as error:
            raise _unknown(self._templates, error.name, self._environment.list_templates()) from None
        except TemplateError:
            raise
        except Exception as error:  # a template runs expressions, and any of them may fail in its own way
            where = self._deepest_line(error, template)
            given = f"{type(error).__name__}: {error}"
            allowed = ", ".join(sorted(values)) if isinstance(error, jinja2.UndefinedError) else ""
            raise TemplateError(Fault(where, given, allowed)) from None

    def _deepest_line(self, error: BaseException, template: str) -> str:
        """Where in the templates it failed: Jinja rewrites the traceback to template files and lines."""
        where, trace = display_path(self._templates / template), error.__traceback__
        while trace is not None:
            file = Path(trace.tb_frame.f_code.co_filename)
            if file.parent == self._templates:
                where = f"{display_path(file)}:{trace.tb_lineno}"
            trace = trace.tb_next
        return where
