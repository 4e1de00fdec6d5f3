"""What differs is posted when it is settled, once, and in an order that a mirror can follow."""

from spark_sink.feed.posts import DIRECTORY, HLINK, LINK, REMOVE, RENAME
from spark_sink.feed.producer.scanning import FILE, Change, Entry, Look, Watch


def file(inode: int, size: int = 1, mtime_ns: int = 1, names_n: int = 1, *, is_sealed: bool = False) -> Entry:
    return Entry(FILE, size, mtime_ns, 1, inode, names_n, is_sealed=is_sealed)


def link(target: str, inode: int = 50) -> Entry:
    return Entry(LINK, 0, 1, 1, inode, target=target)


FOLDER = Entry(DIRECTORY, 0, 1, 1, 90)


class Folder:
    """A Watch, and a folder that it looks at each second; all that it finds is posted."""

    def __init__(self, settle_s: float = 0.0, **entries: Entry) -> None:
        self.entries = {path.replace("__", "/"): entry for path, entry in entries.items()}
        self.watch = Watch(dict(self.entries), settle_s=settle_s)
        self.now = 0.0

    def look(self, unread: tuple[str, ...] = (), *, is_whole: bool = True) -> list[tuple[str, str]]:
        """Kind and path of what is posted; of a link or rename the other path, too."""
        self.now += 1
        changes = self.watch.compare(Look(dict(self.entries), is_whole, unread), self.now)
        for change in changes:
            self.watch.done(change, is_posted=True)
        return [(each.kind, f"{each.other}>{each.path}" if each.other else each.path) for each in changes]

    def settled(self) -> list[tuple[str, str]]:
        """Of this look and the next ones, until nothing differs."""
        found = self.look()
        while (more := self.look()) or self.watch.waiting:
            found += more
        return found


def test_a_new_file_is_posted_when_two_looks_found_the_same() -> None:
    folder = Folder()
    folder.entries["a"] = file(1)
    assert [folder.look(), folder.look(), folder.look()] == [[], [("file", "a")], []]


def test_a_file_that_grows_is_posted_when_it_has_stopped() -> None:
    folder = Folder()
    for size in (1, 2, 3):
        folder.entries["a"] = file(1, size, mtime_ns=size)
        assert folder.look() == []
    assert folder.look() == [("file", "a")]


def test_settle_time_counts_from_the_last_change() -> None:
    folder = Folder(settle_s=3)
    folder.entries["a"] = file(1)
    folder.look()
    folder.entries["a"] = file(1, mtime_ns=2)
    assert [folder.look() for _ in range(4)] == [[], [], [], [("file", "a")]]


def test_a_sealed_segment_is_posted_at_once() -> None:
    folder = Folder()
    folder.entries["flows/a"] = file(1, is_sealed=True)
    assert folder.look(is_whole=False) == [("file", "flows/a")]
    assert folder.look() == []


def test_a_file_that_a_look_found_under_neither_of_its_names_is_renamed() -> None:
    folder = Folder(a=file(1))
    del folder.entries["a"]
    assert folder.look() == []
    folder.entries["c"] = file(1)
    assert [folder.look(), folder.look(), folder.look()] == [[], [("rename", "a>c")], []]


def test_a_change_of_size_time_or_inode_is_one() -> None:
    for changed in (file(1, size=2), file(1, mtime_ns=2), file(2)):
        folder = Folder(a=file(1))
        folder.entries["a"] = changed
        assert folder.settled() == [("file", "a")]


def test_what_is_gone_is_posted_when_two_looks_missed_it() -> None:
    folder = Folder(a=file(1))
    del folder.entries["a"]
    assert [folder.look(), folder.look(), folder.look()] == [[], [("remove", "a")], []]


def test_a_file_that_one_look_missed_is_not_gone() -> None:
    folder = Folder(a=file(1))
    entry = folder.entries.pop("a")
    assert folder.look() == []
    folder.entries["a"] = entry
    assert [folder.look(), folder.look()] == [[], []]


def test_a_file_with_another_name_is_renamed_and_neither_new_nor_gone() -> None:
    folder = Folder(a=file(1), b__c=file(2), b=FOLDER)
    folder.entries["d"] = folder.entries.pop("b/c")
    assert folder.settled() == [("rename", "b/c>d")]
    assert folder.watch.known == {"a": file(1), "b": FOLDER, "d": file(2)}


def test_a_file_that_was_renamed_and_changed_is_new() -> None:
    folder = Folder(a=file(1))
    del folder.entries["a"]
    folder.entries["b"] = file(1, mtime_ns=9)
    assert folder.settled() == [("remove", "a"), ("file", "b")]


def test_names_that_were_exchanged_are_changed_files() -> None:
    folder = Folder(a=file(1), b=file(2))
    folder.entries = {"a": file(2), "b": file(1)}
    assert folder.settled() == [("file", "a"), ("file", "b")]


def test_a_chain_of_renames_ends_with_the_names_that_are_there() -> None:
    folder = Folder(a=file(1), b=file(2))
    folder.entries = {"b": file(1), "c": file(2)}
    assert folder.settled() == [("remove", "a"), ("file", "b"), ("file", "c")]


def test_a_folder_that_was_renamed_is_made_its_files_move_and_the_old_one_goes() -> None:
    folder = Folder(a=FOLDER, a__x=file(1), a__s=FOLDER, a__s__y=file(2))
    folder.entries = {"b": FOLDER, "b/x": file(1), "b/s": FOLDER, "b/s/y": file(2)}
    assert folder.settled() == [
        ("directory", "b"),
        ("directory", "b/s"),
        ("rename", "a/s/y>b/s/y"),
        ("rename", "a/x>b/x"),
        ("remove", "a/s"),
        ("remove", "a"),
    ]


def test_a_file_becomes_a_folder_and_a_folder_a_file_when_the_name_is_free() -> None:
    folder = Folder(a=file(1), b=FOLDER, b__x=file(2))
    folder.entries = {"a": FOLDER, "a/y": file(3), "b": file(4)}
    posted = folder.settled()
    assert sorted(posted) == sorted(
        [("remove", "a"), ("remove", "b/x"), ("remove", "b"), ("directory", "a"), ("file", "a/y"), ("file", "b")]
    )
    for before, after in (
        (("remove", "a"), ("directory", "a")),
        (("remove", "b/x"), ("remove", "b")),
        (("remove", "b"), ("file", "b")),
    ):
        assert posted.index(before) < posted.index(after)


def test_a_link_is_posted_with_each_new_target_and_not_with_a_new_time() -> None:
    folder = Folder()
    folder.entries["l"] = link("a")
    assert folder.settled() == [("link", "l")]
    folder.entries["l"] = link("b")
    assert folder.settled() == [("link", "l")]
    folder.entries["l"] = link("b", inode=51)
    assert folder.settled() == []


def test_the_time_of_a_folder_is_no_change() -> None:
    folder = Folder(d=FOLDER)
    folder.entries["d"] = FOLDER._replace(mtime_ns=99)
    assert folder.settled() == []


def test_other_names_of_a_file_are_hard_links_once_it_is_posted() -> None:
    folder = Folder()
    folder.entries = {"b": file(1, names_n=3), "a": file(1, names_n=3), "d/c": file(1, names_n=3)}
    assert folder.settled() == [("file", "a"), (HLINK, "a>b"), (HLINK, "a>d/c")]


def test_a_hard_link_to_a_posted_file_follows_it() -> None:
    folder = Folder(z=file(1, names_n=2))
    folder.entries["a"] = file(1, names_n=2)
    assert folder.settled() == [(HLINK, "z>a")]


def test_hard_links_whose_file_was_changed_follow_again() -> None:
    folder = Folder(a=file(1, names_n=2), b=file(1, names_n=2))
    folder.entries = {"a": file(1, mtime_ns=2, names_n=2), "b": file(1, mtime_ns=2, names_n=2)}
    assert folder.settled() == [("file", "a"), (HLINK, "a>b")]


def test_what_lies_in_a_folder_that_cannot_be_read_is_not_gone() -> None:
    folder = Folder(d=FOLDER, d__x=file(1), dx=file(2))
    folder.entries = {}
    assert [folder.look(("d",)), folder.look(("d",))] == [[], [(REMOVE, "dx"), (REMOVE, "d")]]
    assert [folder.look(("",)), folder.look(("",))] == [[], []]
    assert folder.settled() == [(REMOVE, "d/x")]


def test_a_change_under_way_is_not_given_again_and_one_that_failed_is() -> None:
    watch = Watch({})
    look = Look({"a": file(1), "b": file(2)})
    assert watch.compare(look, 1) == []
    first, second = watch.compare(look, 2)
    assert [first.kind, watch.compare(look, 3), set(watch.waiting)] == [FILE, [], {"a", "b"}]
    watch.done(first, is_posted=True)
    watch.done(second, is_posted=False)
    assert [watch.compare(look, 4), watch.compare(look, 5)] == [[], [Change(FILE, "b", file(2))]]


def test_a_rename_under_way_holds_both_names() -> None:
    watch = Watch({"a": file(1)})
    watch.compare(Look({"b": file(1)}), 1)
    (rename,) = watch.compare(Look({"b": file(1)}), 2)
    assert rename == Change(RENAME, "b", file(1), "a")
    assert [watch.compare(Look({"b": file(1)}), now) for now in (3, 4)] == [[], []]


def test_a_part_of_a_look_removes_nothing() -> None:
    folder = Folder(a=file(1), b=file(2))
    folder.entries = {}
    assert [folder.look(is_whole=False) for _ in range(3)] == [[], [], []]
