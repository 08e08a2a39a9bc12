"""Files of an archive, wherever Spark can write: a local directory, HDFS, an object store.

Spark's own file systems are asked (through its JVM), so an archive can be wherever a table can.
Paths are relative to the archive's root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orbitmq.errors import OrbitError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ArchiveFiles"]


class ArchiveFiles:
    """The file system below one directory."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        self.root = root.rstrip("/")
        self._jvm = jvm
        self._fs = jvm.org.apache.hadoop.fs.Path(root).getFileSystem(
            spark._jsc.hadoopConfiguration()
        )

    def url(self, path: str) -> str:
        """Return a path as Spark takes it."""
        return f"{self.root}/{path}"

    def _at(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.url(path))

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""
        return bool(self._fs.exists(self._at(path)))

    def delete(self, path: str) -> None:
        """Delete a file or directory if it is there."""
        self._fs.delete(self._at(path), True)

    def move(self, source: str, target: str) -> None:
        """Give a file another name, which must be free."""
        to = self._at(target)
        self._fs.mkdirs(to.getParent())
        if not self._fs.rename(self._at(source), to):
            raise OrbitError(f"{self.url(source)} cannot be moved to {self.url(target)}")

    def read_text(self, path: str) -> str:
        """Return the content of a small file."""
        stream = self._fs.open(self._at(path))
        try:
            data = self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)
            return bytes(data).decode()
        finally:
            stream.close()

    def create_text(self, path: str, text: str) -> None:
        """Make a small file that is there as a whole or not at all; its name must be free."""
        unfinished = f"{path}.unfinished"
        stream = self._fs.create(self._at(unfinished), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if self.exists(path) or not self._fs.rename(self._at(unfinished), self._at(path)):
            raise OrbitError(
                f"{self.url(path)} is there already: somebody else writes this archive"
            )

    def below(self, directory: str) -> list[tuple[str, int]]:
        """Return every file below a directory with its size; hidden ones are left out."""
        if not self.exists(directory):
            return []
        base = self._fs.makeQualified(self._at("x")).getParent().toString().rstrip("/")
        found = []
        listing = self._fs.listFiles(self._at(directory), True)
        while listing.hasNext():
            status = listing.next()
            path = status.getPath().toString()[len(base) + 1 :]
            if not path.rpartition("/")[2].startswith(("_", ".")):
                found.append((path, int(status.getLen())))
        return sorted(found)
