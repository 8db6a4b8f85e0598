"""What does a reviewer see and do?

A `Desk` is a store under review: it says which videos, categories and tracks there are, and writes edits to the log.
Whoever edits says which state they saw; if others changed it since, the edit is refused and says what they did, so that
nobody's work is overwritten unseen.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import zarr

from labeling.locks import is_labeled_by
from labeling.palette import NEUTRAL, ink
from labeling.places import Place, open_group, place
from labeling.problems import RunError
from labeling.recipe import digest
from labeling.review.edits import AssignTracks, CategoryEdit, CheckVideo, Edit, SplitTrack, UncheckVideo, in_words
from labeling.review.frames import Wanted
from labeling.review.log import LONGEST_AUTHOR, Busy, Entry, Log, now, read_log, write_entry
from labeling.review.outcome import EditError
from labeling.review.review import Marks, Review
from labeling.review.sheet import Sheet
from labeling.store import UNASSIGNED_NAME, Store, VideoLabels
from labeling.tracks import UNASSIGNED
from labeling.zarr_io import complete_group, group_at, load

RECENT = 200  # entries of the log that the page lists
SHEETS = 4  # videos whose tracks are held


class Conflict(RunError):
    """Others changed the review since; the message says what they did."""


class Desk:
    """A store under review; may be used by several threads."""

    def __init__(self, path: str | Place, videos: str | Place | None = None, author: str = "") -> None:
        """Open the store at `path`; its videos are in `videos` now, and edits are signed by `author`.

        Raises:
            StoreError: It is no label store.
            Busy: It is being labeled.
            RunError: The author is no name.
        """
        if len(author) > LONGEST_AUTHOR or not author.isprintable():
            raise RunError(f"--author is a name: one line of at most {LONGEST_AUTHOR} characters.")
        self.path, self.author = place(path), author
        self._lock = threading.RLock()
        self._store = Store(self.path, reviewed=False)
        if run := is_labeled_by(self.path):
            raise Busy(f"{self.path} is being labeled right now ({run}). Review it when that is done.")
        self.videos_folder = place(videos) if videos else self._store.videos_folder
        self._sheets: OrderedDict[str, Sheet] = OrderedDict()
        self._look(self._store.root)

    def _look(self, root: zarr.Group) -> None:
        """Take in what the store holds now."""
        labels = digest(attributes=dict(root.attrs))
        if labels != getattr(self, "_labels", ""):
            self._labels, self._store = labels, Store(self.path, reviewed=False)
            self._videos = [_facts(labels) for labels in self._store.values()]
            self._sizes = Counter[int]()  # tracks of each category as they were found
            for id in self._store:
                self._sizes.update(load(root, f"videos/{id}/category").tolist())
        self._root, self.log = root, read_log(root)
        self.review = Review(root, self.log)

    def refresh(self) -> str:
        """Look whether anything changed, and return the version of what is there."""
        with self._lock:
            self._look(open_group(self.path))
            return self.version

    @property
    def version(self) -> str:
        """Another one with every edit, and after every run that labeled into the store."""
        return f"{len(self.log)}-{self._labels[:8]}"

    def overview(self) -> dict[str, Any]:
        """Videos, categories and the state of the review."""
        with self._lock:
            self.refresh()
            checked = {facts["id"]: self.review.checked(facts["id"]) for facts in self._videos}
            return {
                "version": self.version, "path": str(self.path), "author": self.author,
                "title": self.videos_folder.name or str(self.videos_folder),
                "videos": [facts | {"checked": _signed(checked[facts["id"]])} for facts in self._videos],
                "categories": self._categories(),
                "undo": self._words(self.log.done[-1]) if self.log.done else None,
                "redo": self._words(self.log.undone[-1]) if self.log.undone else None,
                "history": [self._line(entry) for entry in self.log.done[: -RECENT - 1 : -1]],
                "edits": len(self.log.done),
                "misfits": [str(misfit) for misfit in self.review.misfits(facts["id"] for facts in self._videos)],
                "labeled_by": is_labeled_by(self.path),
            }  # fmt: skip

    def sheet(self, video: str) -> Sheet:
        """The tracks of a video as they are now; KeyError if there is none of that id."""
        with self._lock:
            facts = next((facts for facts in self._videos if facts["id"] == video), None)
            if facts is None:
                raise KeyError(video)
            group = group_at(self._root, f"videos/{video}")
            version = digest(recipe=str(group.attrs["recipe"]), review=self.review.changes(video))
            if video not in self._sheets or self._sheets[video].version != version:
                labels = VideoLabels(video, group, self.review.categories.names, self.review)
                self._sheets[video] = Sheet(labels, version)
            self._sheets.move_to_end(video)
            while len(self._sheets) > SHEETS:
                self._sheets.popitem(last=False)
            return self._sheets[video]

    def wanted(self, video: str) -> Wanted | None:
        """What is known of a video's file; None if there is no such video."""
        with self._lock:
            facts = next((facts for facts in self._videos if facts["id"] == video), None)
            if facts is None:
                return None
            known = dict(group_at(self._root, f"videos/{video}").attrs)
            stage = complete_group(self._root, f"stages/{video}")
            mark = str(stage.attrs.get("fingerprint", "")) if stage else ""
            size = (facts["height"], facts["width"])
            return Wanted(video, facts["source"], size, facts["frames"], str(known.get("sha256", "")), mark)

    def edit(self, edit: Edit, version: str) -> str:
        """Do an edit to the state `version`, and say in words what was done.

        Raises:
            Conflict: Others changed something since.
            EditError: It cannot be done.
            Busy: The store is being labeled.
        """
        return self._write(version, lambda root, log: self._entry(root, log, edit))

    def undo(self, version: str) -> str:
        """Undo the last edit, whoever made it, and say what that was."""
        return self._write(version, self._undo)

    def redo(self, version: str) -> str:
        """Do the edit again that was undone last, and say what it is."""
        return self._write(version, self._redo)

    def _write(self, version: str, make: Callable[[zarr.Group, Log], Entry]) -> str:
        with self._lock:

            def checked(root: zarr.Group, log: Log) -> Entry:
                self._look(root)
                if version != self.version:
                    raise Conflict(self._since(version))
                return make(root, log)

            before = self.log
            log = write_entry(self.path, checked)
            changed = {"undo": before.done, "redo": before.undone}.get(log.entries[-1].what, log.done)
            self.refresh()
            return self._words(changed[-1])

    def _undo(self, root: zarr.Group, log: Log) -> Entry:
        if not log.done:
            raise EditError("there is nothing to undo")
        return Entry(at=now(), by=self.author, what="undo")

    def _redo(self, root: zarr.Group, log: Log) -> Entry:
        if not log.undone:
            raise EditError("there is nothing to do again")
        return Entry(at=now(), by=self.author, what="redo")

    def _entry(self, root: zarr.Group, log: Log, edit: Edit) -> Entry:
        """The entry of an edit; it is tried out first, on a review that is thrown away."""
        trial = Review(root, log)
        if isinstance(edit, CategoryEdit):
            trial.categories.do(edit)
            return Entry(at=now(), by=self.author, edit=edit, vocabulary=trial.vocabulary)
        try:
            sheet = self.sheet(edit.video)
        except KeyError as error:
            raise EditError(f"there is no video {edit.video}") from error
        recipe = str(group_at(root, f"videos/{edit.video}").attrs["recipe"])
        if isinstance(edit, CheckVideo | UncheckVideo):
            if isinstance(edit, CheckVideo) == bool(trial.checked(edit.video)):
                raise EditError("it is so already")
            return Entry(at=now(), by=self.author, edit=edit, labels=recipe)
        table = trial.outcome(edit.video).table
        sources = {p.source for number in edit.named if number in table.tracks for p in table.tracks[number].pieces}
        if isinstance(edit, SplitTrack):
            edit = edit.model_copy(update={"new": table.next_instance})
        if isinstance(edit, AssignTracks):
            trial.categories.refuse_unknown(edit.category)
        table.do(edit)
        if isinstance(edit, SplitTrack):
            _refuse_empty_half(sheet, edit)
        marks = Marks(group_at(root, f"videos/{edit.video}"))
        return Entry(
            at=now(), by=self.author, edit=edit, labels=recipe, marks={source: marks.of(source) for source in sources},
            vocabulary=trial.vocabulary if isinstance(edit, AssignTracks) else "",
        )  # fmt: skip

    def _since(self, version: str) -> str:
        seen = int(version.partition("-")[0]) if version.partition("-")[0].isdigit() else 0
        news = [self._news(entry) for entry in self.log.entries[seen:]]
        if not news:
            return "The store was labeled anew since. Look again."
        more = f" and {len(news) - 3} more" if len(news) > 3 else ""
        return f"The review was changed elsewhere since: {'; '.join(news[-3:])}{more}. Look again."

    def _news(self, entry: Entry) -> str:
        what = {"undo": "something was undone", "redo": "something was done again"}.get(entry.what) or self._words(
            entry
        )
        return f"{what}{f' by {entry.by}' if entry.by else ''}"

    def _words(self, entry: Entry) -> str:
        assert entry.edit is not None
        words = in_words(entry.edit, self.review.categories.name_of)
        return words if isinstance(entry.edit, CategoryEdit) else f"{entry.edit.video}: {words}"

    def _line(self, entry: Entry) -> dict[str, Any]:
        assert entry.edit is not None
        video = None if isinstance(entry.edit, CategoryEdit) else entry.edit.video
        words = in_words(entry.edit, self.review.categories.name_of)
        frame = getattr(entry.edit, "frame", None)
        return {"words": words, "video": video, "frame": frame, "at": entry.at.isoformat(), "by": entry.by}

    def _categories(self) -> list[dict[str, Any]]:
        sizes = self.review.sizes(self._sizes, [facts["id"] for facts in self._videos], dropped=True)
        names, dropped = self.review.categories.names, self.review.categories.dropped
        listed = [
            (row.id, names[row.id], row.colour) for row in self._store.categories
            if row.id in names and (sizes[row.id] or row.id in dropped)
        ]  # fmt: skip
        listed.append((UNASSIGNED, UNASSIGNED_NAME, NEUTRAL))
        return [
            {
                "id": id,
                "name": name,
                "colour": colour,
                "ink": ink(colour),
                "tracks": sizes[id],
                "kept": id not in dropped,
            }
            for id, name, colour in listed
        ]


def _facts(labels: VideoLabels) -> dict[str, Any]:
    height, width = labels.size
    fps = float(labels.attributes.get("fps") or 0) or 24.0
    return {
        "id": labels.id, "source": labels.source, "frames": labels.frames, "fps": fps, "height": height, "width": width,
        "seconds": labels.frames / fps,
    }  # fmt: skip


def _signed(entry: Entry | None) -> str:
    return f"{entry.at:%Y-%m-%d %H:%M} UTC{f' by {entry.by}' if entry.by else ''}" if entry else ""


def _refuse_empty_half(sheet: Sheet, edit: SplitTrack) -> None:
    before, since = sheet.in_view(edit.track, 0, edit.frame), sheet.in_view(edit.track, edit.frame, sheet.labels.frames)
    if not before or not since:
        where = f"before frame {edit.frame}" if not before else f"from frame {edit.frame} on"
        raise EditError(f"track {edit.track} is not in view {where}: there is nothing to split")
