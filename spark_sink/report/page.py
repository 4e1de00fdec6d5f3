"""The report as one HTML file: figures first, plots with their tables, no request to any host, also from file://.

Names come from strangers. Every text is escaped; the plots' values are JSON that no browser takes for a program; and a
policy in the page's head names the two scripts that may run by their hashes, and allows no request at all.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Final

from spark_sink.pages import html_page, plotly_script
from spark_sink.report.chapters import chapters, headline, warning
from spark_sink.report.facts import Facts
from spark_sink.report.figures import Plot, is_one_bar
from spark_sink.report.printers import TITLE, nothing_of
from spark_sink.report.section import Chapter, Figure, Section
from spark_sink.report.texts import moment_of, span_of

LONG_ROWS: Final = 12  # a table with more may go over several pages of paper
LONG_VALUE: Final = 9  # characters of a figure in large letters
SHORT_CELL: Final = 36  # characters that stand in one line; ids and times do

_FOLDER: Final = Path(__file__).parent


def html_report(facts: Facts, made_at: datetime) -> str:
    """The whole page. MissingPart: plotly is not installed."""
    plotly = plotly_script()
    told = [] if facts.is_empty else chapters(facts)
    sections = [section for chapter in told for section in chapter.sections]
    plots = {one.plot: plot for one in sections if one.draw and (plot := one.draw(facts)) is not None}
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    tail = [
        f"<footer>Made {moment_of(made_at)} UTC with <code>rsocket-broker report</code>. All times are UTC.</footer>",
        f'<script type="application/json" id="plots">{plots_json(plots)}</script>',
        f"<script>{plotly}</script>",
        f"<script>{script}</script>",
    ]
    return html_page(TITLE, style, "\n".join([*_body(facts, told, plots), *tail]), (plotly, script))


def plots_json(plots: dict[str, Plot]) -> str:
    """Values for the page's script; no character in it begins a tag or a comment."""
    values = {
        name: {"data": plot.data, "layout": plot.layout} for name, plot in plots.items() if not is_one_bar(plot.data)
    }
    text = json.dumps(values, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _body(facts: Facts, told: Sequence[Chapter], plots: dict[str, Plot]) -> list[str]:
    lines = ["<header>", f"<h1>{TITLE}</h1>"]
    if facts.is_empty:
        return [*lines, f'<p class="warning" role="status">{escape(nothing_of(facts))}</p>', "</header>"]
    asked = f", asked for from {moment_of(facts.since)} UTC on" if facts.since else ""
    span = f"{span_of(facts.first, facts.last)}{asked}"
    help_text = "In a plot, drag to look closer and double-click to go back; click a name in a legend to hide it."
    lines.append(f'<p class="soft">{span}. {help_text}</p>')
    said = warning(facts)
    if said:
        lines.append(f'<p class="warning" role="alert">{escape(said)} <a href="#records">What is missing</a></p>')
    lines += [*_figures(headline(facts)), "</header>"]
    lines += ['<nav aria-label="Chapters"><ul>']
    lines += [f'<li><a href="#{chapter.name}">{escape(chapter.title)}</a></li>' for chapter in told]
    lines += ["</ul></nav>", "<main>"]
    lines.append(
        '<noscript><p class="warning">The plots need JavaScript; the tables hold the same numbers.</p></noscript>'
    )
    for chapter in told:
        lines += _chapter(chapter, plots)
    return [*lines, "</main>"]


def _figures(figures: Sequence[Figure]) -> list[str]:
    lines = ['<dl class="figures">']
    for one in figures:
        bad = ' class="bad"' if one.is_bad else ""
        long = " long" if len(one.value) > LONG_VALUE else ""
        lines.append(
            f'<div{bad}><dt>{escape(one.label)}</dt><dd class="value{long}">{escape(one.value)}</dd>'
            f'<dd class="note">{escape(one.note)}</dd></div>'
        )
    return [*lines, "</dl>"]


def _chapter(chapter: Chapter, plots: dict[str, Plot]) -> list[str]:
    lines = ["<section>", f'<h2 id="{chapter.name}">{escape(chapter.title)}</h2>']
    for section in chapter.sections:
        lines += _plotted(section, plots.get(section.plot)) if section.plot else _card(section)
    return [*lines, "</section>"]


def _plotted(section: Section, plot: Plot | None) -> list[str]:
    """A plot with the same in words and as a table; of one bar the words are enough."""
    if plot is None:  # there may be rows that no plot shows: one moment of what is drawn over time
        return _card(section)
    title = f'<h3 id="title-{section.plot}">{escape(section.title)}</h3>'
    drawing = (
        f'<div class="drawing" id="plot-{section.plot}" role="img" aria-labelledby="title-{section.plot}" '
        f'aria-describedby="words-{section.plot}" style="height:{plot.layout["height"]}px"></div>'
    )
    return [
        "<figure>",
        f'<figcaption>{title}<p class="soft" id="words-{section.plot}">{escape(plot.summary)}</p></figcaption>',
        *([] if is_one_bar(plot.data) else [drawing]),
        "<details><summary>The same as a table</summary>",
        *_table(section),
        "</details>",
        "</figure>",
    ]


def _card(section: Section) -> list[str]:
    long = " long" if len(section.rows) > LONG_ROWS else ""
    lines = [f'<div class="card{long}">', f"<h3>{escape(section.title)}</h3>"]
    return [*lines, *_table(section), "</div>"]


def _table(section: Section) -> list[str]:
    if not section.rows:
        return [f'<p class="nothing">{escape(section.nothing)}</p>']
    kinds = [
        "number" if column in section.numeric else "bars" if column == "over time" else "" for column in section.columns
    ]
    lines = [
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(section.title)}"><table>',
        "<thead><tr>",
    ]
    lines += [
        f'<th{_kind(kind)} scope="col">{escape(column)}</th>'
        for column, kind in zip(section.columns, kinds, strict=True)
    ]
    lines.append("</tr></thead><tbody>")
    for row in section.rows:
        cells = (
            f"<td{_kind(kind or ('short' if len(cell) <= SHORT_CELL else ''))}>{escape(cell)}</td>"
            for cell, kind in zip(row, kinds, strict=True)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</tbody></table></div>")
    if section.note:
        lines.append(f'<p class="soft">{escape(section.note)}</p>')
    return lines


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
