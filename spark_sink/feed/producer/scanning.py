"""What has changed in a folder since it was posted: what one look at it found, compared with what is known.

    look at the folder ──► Look ──► Watch.compare ──► Changes that are settled, in the order in which they are posted
                                        ▲   └── what differs, but not for long enough: compared again next time
                        Watch.done ─────┘   the change is posted, or could not be

A change is settled when two looks found the same and `settle_s` lie between them: so a file that is still being written
is not posted, nor is one gone that a look has missed because it was moved meanwhile. A file that is gone waits for the
name that it has now, too: a look at a folder in which it is moved may find it under neither. A sealed segment is
complete from the moment it has its name, and is posted at once.

Without I/O: `folders` looks, `poster` posts. The clock comes in as a parameter.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from spark_sink.feed.posts import DIRECTORY, HLINK, LINK, REMOVE, RENAME

FILE: Final = "file"  # beside the operations of posts; of these HLINK is another name of a file that is posted already


class Entry(NamedTuple):
    """What a folder holds under one name."""

    kind: str  # FILE, LINK, DIRECTORY
    size: int  # bytes; 0 of what is no FILE
    mtime_ns: int
    device: int
    inode: int
    names_n: int = 1  # hard links to it
    target: str = ""  # of a LINK, as it is written
    place: str = ""  # path below the root, where it is another than relPath: a segment in the archive
    is_sealed: bool = False  # it never changes

    def is_as(self, other: "Entry") -> bool:
        """Has nothing changed that would have to be posted?"""
        if self.kind != other.kind:
            return False
        if self.kind == DIRECTORY:
            return True  # its time changes with its content, which is posted itself
        if self.kind == LINK:
            return self.target == other.target
        return self[1:5] == other[1:5]


class Change(NamedTuple):
    """What is to be posted of one path."""

    kind: str  # FILE, LINK, DIRECTORY, HLINK, RENAME, REMOVE
    path: str  # relPath
    entry: Entry  # as it was found; of REMOVE as it was known
    other: str = ""  # of RENAME the path before, of HLINK the path that is posted


class Look(NamedTuple):
    """What one look at a folder has found."""

    entries: Mapping[str, Entry]  # by relPath
    is_whole: bool = True  # False: what is not in it may be there nevertheless
    unread: tuple[str, ...] = ()  # folders that could not be read; "": the root
    problems: tuple[str, ...] = ()  # a sentence each, of what is not posted


class Watch:
    """What is known of a folder, and what has been seen to differ."""

    def __init__(self, known: dict[str, Entry], *, settle_s: float = 0.0) -> None:
        """`known`: what is posted, by relPath, is the Watch's own from now on. `settle_s`: see above, seconds."""
        self.known: Final = known
        self._settle_s: Final = settle_s
        # path -> how it was found (None: not at all) and since when (monotonic, seconds)
        self._unsettled: dict[str, tuple[Entry | None, float]] = {}
        self._under_way: Final[set[str]] = set()  # paths whose changes were given out, and not yet done

    @property
    def waiting(self) -> Iterable[str]:
        """Paths that were found and are not posted yet."""
        return self._unsettled.keys() | self._under_way

    def compare(self, look: Look, now: float) -> list[Change]:
        """Changes that are settled, each given once until it is `done`. `now`: monotonic, seconds.

        Their order is one in which a mirror can follow: names become free, directories are made, files move,
        directories are removed, and then come contents."""
        unsettled: dict[str, tuple[Entry | None, float]] = {}
        known, under_way = self.known, self._under_way
        found: dict[str, Entry] = {}
        for path, entry in look.entries.items():
            old = known.get(path)
            if old is not None and (old is entry or old.is_as(entry)):
                continue
            if path not in under_way and self._is_settled(path, entry, now, unsettled):
                found[path] = entry
        gone: dict[str, Entry] = {}
        if look.is_whole:
            for path in known.keys() - look.entries.keys():
                if path in under_way or _is_below(path, look.unread):
                    continue
                if self._is_settled(path, None, now, unsettled):
                    gone[path] = known[path]
            for path in _arriving(gone, unsettled):
                del gone[path]
                unsettled[path] = self._unsettled[path]
        else:
            unsettled = self._unsettled | unsettled
            for path in found:
                unsettled.pop(path, None)
        self._unsettled = unsettled
        changes = self._changes(look, found, gone)
        for change in changes:
            under_way.add(change.path)
            if change.kind == RENAME:
                under_way.add(change.other)
        return changes

    def done(self, change: Change, *, is_posted: bool) -> None:
        """A change that was given out is in the log of posts; or it could not be, and is looked at again."""
        self._under_way.discard(change.path)
        if change.kind == RENAME:
            self._under_way.discard(change.other)
        if not is_posted:
            return
        if change.kind == REMOVE:
            self.known.pop(change.path, None)
            return
        self.known[change.path] = change.entry
        if change.kind == RENAME:
            self.known.pop(change.other, None)

    def _is_settled(
        self, path: str, entry: Entry | None, now: float, unsettled: dict[str, tuple[Entry | None, float]]
    ) -> bool:
        if entry is not None and entry.is_sealed:
            return True
        since = now
        before = self._unsettled.get(path)
        if before is not None:
            was = before[0]
            if (was is None) if entry is None else (was is not None and was.is_as(entry)):
                since = before[1]
                if now - since >= self._settle_s:
                    return True
        unsettled[path] = (entry, since)
        return False

    def _changes(self, look: Look, found: dict[str, Entry], gone: dict[str, Entry]) -> list[Change]:
        known = self.known
        by_inode = {(old.device, old.inode): path for path, old in gone.items() if old.kind == FILE}
        freed: list[Change] = []
        directories: list[Change] = []
        renames: list[Change] = []
        contents: list[Change] = []
        for path, entry in found.items():
            old = known.get(path)
            if old is not None and (old.kind == DIRECTORY) != (entry.kind == DIRECTORY):
                gone[path] = old  # it has to go before it can be something else, in the next look
                continue
            if entry.kind == DIRECTORY:
                directories.append(Change(DIRECTORY, path, entry))
            elif entry.kind == LINK:
                contents.append(Change(LINK, path, entry))
            elif old is None and self._is_moved(entry, by_inode.get((entry.device, entry.inode))):
                before = by_inode.pop((entry.device, entry.inode))
                del gone[before]
                renames.append(Change(RENAME, path, entry, before))
            else:
                contents.append(Change(FILE, path, entry))
        removed: list[Change] = []
        for path, old in gone.items():
            (removed if old.kind == DIRECTORY else freed).append(Change(REMOVE, path, old))
        freed.sort(key=_path_of)
        directories.sort(key=_path_of)  # those above first
        renames.sort(key=_path_of)
        removed.sort(key=_path_of, reverse=True)  # those below first
        contents.sort(key=_path_of)
        return [*freed, *directories, *renames, *removed, *self._without_doubles(look, contents)]

    def _is_moved(self, entry: Entry, before: str | None) -> bool:
        return before is not None and self.known[before].is_as(entry)

    def _without_doubles(self, look: Look, contents: list[Change]) -> Iterable[Change]:
        """The same, but a file that has another name, too, is posted under one of them: under the others when that is
        done, as links to it."""
        doubles = {(each.entry.device, each.entry.inode) for each in contents if each.entry.names_n > 1}
        if not doubles:
            return contents
        names: dict[tuple[int, int], list[str]] = {}
        for path, entry in look.entries.items():
            if entry.names_n > 1 and entry.kind == FILE and (entry.device, entry.inode) in doubles:
                names.setdefault((entry.device, entry.inode), []).append(path)
        first: dict[tuple[int, int], str] = {}  # under which it is posted now
        kept = []
        for change in contents:
            entry = change.entry
            file = (entry.device, entry.inode)
            if change.kind != FILE or len(names.get(file, ())) < 2:
                kept.append(change)
                continue
            posted = [path for path in names[file] if path in self.known and self.known[path].is_as(entry)]
            if posted:
                kept.append(Change(HLINK, change.path, entry, min(posted)))
            elif first.setdefault(file, change.path) == change.path and not self._under_way.intersection(names[file]):
                kept.append(change)
            else:
                self._unsettled[change.path] = (entry, float("-inf"))  # it is settled
        return kept


def _path_of(change: Change) -> str:
    return change.path


def _arriving(gone: Mapping[str, Entry], unsettled: Mapping[str, tuple[Entry | None, float]]) -> list[str]:
    """Those of `gone` that were found as they were under another name, which is not settled yet."""
    found = {(each.device, each.inode): each for each, _ in unsettled.values() if each is not None} if gone else {}
    paths = []
    for path, old in gone.items():
        entry = found.get((old.device, old.inode))
        if old.kind == FILE and entry is not None and entry.is_as(old):
            paths.append(path)
    return paths


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    """Of something that is missing: perhaps only because one of these was not read."""
    return any(not folder or path.startswith(f"{folder}/") for folder in folders)
