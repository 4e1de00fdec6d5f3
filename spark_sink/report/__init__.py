"""The report: what the tables of the pipeline say, on a terminal, as Markdown and as a page with plots.

    tables ──read_facts──> Facts: every number of the report, decided once, in records named as columns of SQL ──> JSON
                             ├─ sections: tables of texts ──> terminal, Markdown, the page
                             └─ plots: plotly's figures   ──> the page

Needs neither Spark nor Java, and plotly only for the page.
"""

from typing import Final

DEFAULT_TAG: Final = "region"  # that routes of most systems have
