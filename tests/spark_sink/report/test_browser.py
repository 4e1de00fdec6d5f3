"""The page in Chromium: every plot is drawn, nobody complains, and no host is asked for anything."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from spark_sink.report.facts import Facts, read_facts
from spark_sink.report.page import html_report
from tests.spark_sink.report.tables import NOON, Made, Rows, event_row, traffic_row, write
from tests.spark_sink.report.test_page import MADE_AT, PLOTS, evil_facts
from tests.system.support.chromium import Page, browser

# Of a plot: how many pieces that draw something are in it, and whether it has place to be seen.
DRAWN = """Object.fromEntries([...document.querySelectorAll('.drawing')].map((plot) => [plot.id.slice(5), [
    plot.dataset.drawn,
    plot.querySelectorAll('.mlayer path, .mlayer image').length > 0,
    plot.clientWidth > 300 && plot.querySelector('.main-svg').clientHeight > 100,
]]))"""
DONE = ["yes", True, True]
INK = "getComputedStyle(document.querySelector('.drawing .xtick text')).fill"
PAPER = "getComputedStyle(document.body).backgroundColor"
WIDTH = "Math.max(...[...document.querySelectorAll('.drawing .main-svg')].map((one) => one.clientWidth))"
IS_NO_WIDER = "document.documentElement.scrollWidth <= innerWidth"
HIGHEST_CELL = """Math.max(
    ...[...document.querySelectorAll('td.short')].map((cell) => cell.getClientRects()[0].height))"""
# Plots with less than 90 pixels between their margins, and labels of axes that are cut at a side.
PLACE = """[
    [...document.querySelectorAll('.drawing')].filter((plot) => plot._fullLayout._size.w < 90).map((plot) => plot.id),
    [...document.querySelectorAll('.drawing')].flatMap((plot) => {
        const left = plot.getBoundingClientRect().left - 1;
        const texts = [...plot.querySelectorAll('.ytick text, .xtick text, .ytitle')];
        return texts.filter((one) => one.getBoundingClientRect().left < left).map((one) => one.textContent);
    })]"""
DARK_INK = "rgb(27, 35, 48)"
LIGHT_INK = "rgb(232, 236, 242)"

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab(needs_chromium: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    """One browser for all of these: its start takes longer than they do."""
    async with browser(needs_chromium, tmp_path_factory.mktemp("browser") / "new") as page:
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def page(tab: Page) -> AsyncIterator[Page]:
    """The tab as wide as its window, with nothing to complain of yet."""
    tab.errors.clear()
    tab.requests.clear()
    yield tab
    await tab.ask("Emulation.clearDeviceMetricsOverride")


def write_page(path: Path, facts: Facts) -> Path:
    path.write_text(html_report(facts, MADE_AT), encoding="utf-8")
    return path


async def open_report(page: Page, path: Path) -> None:
    """Until all plots are drawn, or none is there."""
    await page.prefer(is_dark=False)
    await page.open(path.as_uri(), "document.readyState == 'complete' && document.body.dataset.drawn == 'yes'")


def assert_alone(page: Page, path: Path) -> None:
    """Nobody complained, and nothing but the file was asked for."""
    assert page.errors == []
    assert {url for url in page.requests if not url.startswith("data:")} == {path.as_uri()}


def with_millions(rows: Rows) -> Rows:
    """The same, and a service with a long name and more requests than fit a narrow axis."""
    many = {"requests": 10_000_000, "latency_counts": [10_000_000]}
    rows["traffic"] += [traffic_row("n" * 60, 1, minute=NOON + timedelta(minutes=n)) | many for n in range(3)]
    return rows


async def set_width(page: Page, pixels: int) -> None:
    await page.ask("Emulation.setDeviceMetricsOverride", width=pixels, height=900, deviceScaleFactor=1, mobile=False)


async def assert_whole(page: Page) -> None:
    """Plots have place and whole labels, and each number above them is in one line."""
    assert await page.value(PLACE) == [[], []]
    tile = "Math.max(...[...document.querySelectorAll('dd.value')].slice(0, 3).map((one) => one.clientHeight))"
    assert await page.value(tile) < 40


async def test_every_plot_is_drawn_in_light_and_dark_and_on_paper_and_a_narrow_page_breaks_no_words(
    page: Page, tmp_path: Path
) -> None:
    """One page, looked at in all ways: drawing it takes longer than all of them."""
    write(tmp_path, Made(1).rows)
    path = write_page(tmp_path / "report.html", read_facts(tmp_path))
    await open_report(page, path)
    assert await page.value(DRAWN) == dict.fromkeys(PLOTS, DONE)
    on_screen = await page.value(WIDTH)
    assert (await page.value(INK), await page.value(PAPER)) == (DARK_INK, "rgb(246, 247, 249)")
    await page.prefer(is_dark=True)
    assert (await page.value(INK), await page.value(PAPER)) == (LIGHT_INK, "rgb(18, 22, 28)")
    await page.value("window.dispatchEvent(new Event('beforeprint'))")
    assert (await page.value(WIDTH), await page.value(INK)) == (690, DARK_INK)
    await page.value("window.dispatchEvent(new Event('afterprint'))")
    assert (await page.value(WIDTH), await page.value(INK)) == (on_screen, LIGHT_INK)
    assert await page.value(DRAWN) == dict.fromkeys(PLOTS, DONE)
    await set_width(page, 700)
    await page.until(f"{WIDTH} < 700")  # the plots follow
    await page.until(IS_NO_WIDER)
    assert await page.value(HIGHEST_CELL) < 40
    assert_alone(page, path)


async def test_on_a_wide_page_plots_are_whole_and_names_that_are_programs_are_only_shown(
    page: Page, tmp_path: Path
) -> None:
    path = write_page(tmp_path / "report.html", evil_facts(tmp_path, with_millions(Made(7).rows)))
    await set_width(page, 1280)
    await open_report(page, path)
    await assert_whole(page)
    assert await page.value("document.querySelectorAll('img, .drawing a, .drawing b').length") == 0
    names = await page.value("[...document.querySelectorAll('.drawing .ytick text')].map((one) => one.textContent)")
    assert any(name.startswith("</script><i") for name in names)
    assert_alone(page, path)


async def test_on_a_phone_plots_are_whole(page: Page, tmp_path: Path) -> None:
    write(tmp_path, with_millions(Made(2).rows))
    path = write_page(tmp_path / "report.html", read_facts(tmp_path))
    await set_width(page, 390)
    await open_report(page, path)
    await assert_whole(page)


@pytest.mark.parametrize("rows", [{"traffic": [traffic_row()]}, {"lifecycle": [event_row("PeerClosed")]}, {}])
async def test_tables_with_little_in_them_are_a_page_too(page: Page, tmp_path: Path, rows: Rows) -> None:
    write(tmp_path, {"callers": Made(5).rows["callers"]} | rows)
    path = write_page(tmp_path / "report.html", read_facts(tmp_path))
    await open_report(page, path)
    drawn = await page.value(DRAWN)
    assert drawn == dict.fromkeys(drawn, DONE)
    assert ("latencies" in drawn, "cluster" in drawn) == ("traffic" in rows, bool(rows))
    assert "services" not in drawn  # one bar is a sentence
    assert_alone(page, path)
