"""The feed in the REST API: its state, its posts and its files, and what is said where it does not answer."""

from dataclasses import replace
from pathlib import Path

import pytest

from admin_api.app import make_workers_app
from spark_sink.feed.producer.digests import PostedDigests
from tests.admin_api.asking import Api, api_of, get, refusal, said, squeezed
from tests.admin_api.backends.test_workers import FakeSupervisor
from tests.admin_api.fakes import FakeAdmin
from tests.admin_api.feed import FILE, POST, STATE, FakeFeed

FEED = "/api/v1/feed"
POSTS = f"{FEED}/data/posts"


async def test_the_state_is_that_of_the_feed_with_its_process(admin: FakeAdmin, feed: FakeFeed) -> None:
    admin.keep_feed(feed)
    async with api_of(admin) as client:
        assert await get(client, FEED) == {**STATE, "pid": 43, "restarts": 2}


async def test_posts_are_asked_for_by_path_and_by_who_lacks_them(admin: FakeAdmin, feed: FakeFeed) -> None:
    admin.keep_feed(feed)
    async with api_of(admin) as client:
        page = await get(client, f"{POSTS}?path=a/b&without=feed@mirror&after=3&limit=7")
    assert page == {"items": [POST], "folder": "data", "after": 3, "limit": 7}
    assert feed.asked == [{"folder": "data", "after": "3", "limit": "7", "path": "a/b", "without": "feed@mirror"}]


async def test_a_folder_that_is_not_posted_has_no_posts_and_no_files(admin: FakeAdmin, feed: FakeFeed) -> None:
    admin.keep_feed(feed)
    async with api_of(admin) as client:
        sentence = "no folder dota is posted; there are data"
        assert await refusal(client, "GET", f"{FEED}/dota/posts") == (404, "no-such-folder", sentence)
        sentence = "no folder dota is posted by this broker"
        assert await refusal(client, "GET", "/feed/dota/a") == (404, "no-such-file", sentence)


async def test_a_broker_without_a_feed_says_so(client: Api) -> None:
    for path in (FEED, POSTS):
        sentence = (
            "this broker has no feed: none of the tables of [feed] is configured; [feed.post.NAME] announces a folder"
        )
        assert await refusal(client, "GET", path) == (404, "no-feed", sentence)
    async with client.get("/") as page:
        assert FEED not in await page.text()


async def test_a_feed_that_does_not_run_is_unavailable(admin: FakeAdmin, feed: FakeFeed) -> None:
    feed.pid = 0
    admin.keep_feed(feed)
    async with api_of(admin) as client:
        sentence = "the feed does not run; the broker's log says why"
        assert await refusal(client, "GET", FEED) == (503, "feed-unavailable", sentence)
        async with client.get("/metrics") as answer:
            text = await answer.text()
        assert "feed_up 0.0" in text
        assert "feed_restarts_total 2.0" in text
        async with client.get("/feed/data/b%0Ac") as answer:  # files are served nevertheless
            assert (answer.status, await answer.text()) == (200, FILE)


async def test_several_workers_have_one_feed(feed: FakeFeed, tmp_path: Path) -> None:
    supervisor = FakeSupervisor(tmp_path)
    supervisor.config = replace(supervisor.config, feed=feed.options)
    async with api_of(make_workers_app(supervisor, None, feed)) as client:
        assert (await get(client, FEED))["posted"] == STATE["posted"]
        async with client.get("/feed/data/b%0Ac") as answer:
            assert await answer.text() == FILE


async def test_files_have_ranges_and_nothing_leads_out(admin: FakeAdmin, feed: FakeFeed) -> None:
    admin.keep_feed(feed)
    async with api_of(admin) as client:
        async with client.get("/feed/data//b%0Ac", headers={"Range": "bytes=2-3"}) as answer:  # as sr3 asks
            assert (answer.status, await answer.text()) == (206, "fi")
        for path in ("/feed/data/.b", "/feed/data/b", "/feed/data/"):
            assert (await refusal(client, "GET", path))[:2] == (404, "no-such-file")


async def test_the_etag_of_a_file_that_was_posted_is_its_digest(
    admin: FakeAdmin, feed: FakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostedDigests, "find", lambda self, path, stat: "md5:" + path.replace("\n", "|"))
    admin.keep_feed(feed)
    async with api_of(admin) as client, client.head("/feed/data/b%0Ac") as answer:
        assert answer.headers["ETag"] == '"md5:b|c"'


async def test_ctl_shows_who_lags(admin: FakeAdmin, feed: FakeFeed) -> None:
    admin.keep_feed(feed)
    async with api_of(admin) as client:
        url = str(client.make_url(""))
        shown = squeezed(await said("feed", "posts", "data", "--without", "feed@mirror", "--admin", url, columns=160))
    assert shown[1:] == ["11 a/b - stands 2023-11-14 22:14:00 sr3@far feed@mirror: 499"]
    assert feed.asked[0]["without"] == "feed@mirror"
