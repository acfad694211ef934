"""`assay kv-size`: how many bytes a KV cache takes in each format."""

from __future__ import annotations

import json
from pathlib import Path

import click
import rich.box
from rich.table import Table

from assay.qualify import kv_sizing, terminal

from .options import json_option


@click.command("kv-size")
@click.argument("model", required=False)
@click.option("--models", type=click.Path(path_type=Path), help="List that MODEL is in; default: assay's own.")
@click.option("--layers", type=int, help="Layers that have a KV cache.")
@click.option("--kv-heads", type=int, help="KV heads of a layer.")
@click.option("--head-dim", type=int, help="Elements of a row of K, and of V.")
@click.option("--head-dim-v", type=int, help="Elements of a row of V, where they are others.")
@click.option("--tokens", type=int, default=1, show_default=True, help="Physical rows of the cache (slots).")
@click.option("--format", "formats", multiple=True, help="KV format; may be repeated. Default: all of them.")
@json_option
def kv_size_command(
    model: str | None,
    models: Path | None,
    layers: int | None,
    kv_heads: int | None,
    head_dim: int | None,
    head_dim_v: int | None,
    tokens: int,
    formats: tuple[str, ...],
    as_json: bool,
) -> int:
    """Bytes of a KV cache, of MODEL or of the numbers given, by format side by side.

    Every layer counts with all tokens, one with a sliding window too. The workspace is BF16, for one layer, and shared
    by all: prefill reconstructs the history of a quantised cache there. Saved is against a BF16 cache, workspace
    included.

    Exit: 0, or 2 bad input.
    """
    numbers = {"layers": layers, "kv_heads": kv_heads, "head_dim": head_dim, "head_dim_v": head_dim_v}
    sizing = kv_sizing.size_kv(model, models, numbers, tokens=tokens, formats=formats)
    if as_json:
        click.echo(json.dumps(kv_sizing.document(sizing), ensure_ascii=False))
    else:
        terminal.console().print(_table(sizing))
    return 0


def _table(sizing: kv_sizing.KVSizing) -> Table:
    shape = ", ".join(f"{value} {name}" for name, value in sizing.shape.items())
    tokens = "1 token" if sizing.tokens == 1 else f"{sizing.tokens:,} tokens"
    title = f"{sizing.model or 'KV cache'}: {shape}; {tokens}"
    # Formats side by side: a line a format is wider than many terminals, and a figure that is cut says nothing.
    table = Table(
        title=title, title_justify="left", header_style="bold", box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("", no_wrap=True)
    for kv_format in sizing.sizes:
        table.add_column(kv_format, justify="right", no_wrap=True)
    pairs = sizing.sizes.values()
    lines = {
        "B/token": [one.cache for one, _ in pairs],
        "  elements": [one.elements for one, _ in pairs],
        "  scales": [one.scales for one, _ in pairs],
        "cache B": [size.cache for _, size in pairs],
        "workspace B": [size.workspace for _, size in pairs],
        "total B": [size.total for _, size in pairs],
    }
    for name, figures in lines.items():
        table.add_row(name, *(f"{figure:,}" for figure in figures))
    table.add_row("saved", *(f"{sizing.saved_percent(size):.2f} %" for _, size in pairs))
    return table
