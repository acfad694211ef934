"""report.html: one page that fetches nothing and runs nothing."""

from html.parser import HTMLParser

from assay.qualify.lock import LockChange
from assay.qualify.reports import html_report

from .conftest import FEWER_SPILLS, HOSTILE, SPILLS

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Tags, attributes and cell texts; fails where tags do not close in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.rows, self._open = set(), [], [], []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self._open):
            self.rows[-1][-1] += data


def test_it_shows_verdict_failures_changes_and_figures(make):
    run = make.run(
        make.passed(vgpr_count=254),
        make.failed(SPILLS, nearest=(FEWER_SPILLS,), problem=make.problem(width=96)),
        changes=(LockChange("worse", "scale width=64", (("vgpr_count", "10", "254"),)),),
        status=1,
        said="NOT QUALIFIED",
    )
    text = html_report.render(run)
    page = Page(text)
    id = "0123456789abcdef"
    assert "<caption>scale: x_dtype=f32, alignment=16</caption>" in text
    assert ["width=96", "unroll=1 st1 w2", "vgpr_spill_count 40 > 0 (40 over)", id] in page.rows
    assert ["", "unroll=2 st1 w4 (nearest)", "vgpr_spill_count 8 > 0 (8 over)", id] in page.rows
    assert ["scale width=64", "vgpr_count 10 → 254"] in page.rows
    assert ["width=64", "vgpr_count 254 of 256 (0.8 % left)", id] in page.rows
    assert next(row for row in page.rows if row[:3] == ["width=64", "qualified", "254!"])
    assert text.index("width=96") < text.index('class="good word">qualified'), "what failed comes first"
    assert "NOT QUALIFIED</span>" in text


def test_it_is_self_contained_and_follows_the_readers_theme(make):
    text = html_report.render(make.run(make.passed()))
    page = Page(text)
    assert page.tags <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "span", "div", "dl", "dt", "dd"),
        *("table", "tr", "th", "td", "details", "summary", "pre", "caption", "code"),
    }
    assert not {name for name, _ in page.attributes} & {"src", "href", "style", "srcdoc"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "prefers-color-scheme: dark" in text
    assert "url(" not in text
    assert "default-src 'none'" in text


def test_names_and_messages_stay_text(make, hostile_run):
    page = Page(html_report.render(hostile_run))
    assert page.tags == Page(html_report.render(make.run(make.failed(SPILLS), make.passed(vgpr_count=256),
        changes=(LockChange("new", "x"),), messages=("m",), complaints=("c",), warnings=("w",)))).tags  # fmt: skip
    texts = [cell.replace("\x00", "\ufffd") for row in page.rows for cell in row]
    assert f"x_dtype={HOSTILE} alignment=16".replace("\x00", "\ufffd") in texts
