"""Files of an archive in any file system of Spark: a local directory, HDFS, an object store.

All operations use the file systems of Spark's JVM, so an archive can be in every place in which a
table can be. Paths are relative to the archive's root.

Of several processes that create a file with the same name, only one may succeed. File systems need
different operations for this:

- Most file systems rename a file only to a free name.
- A local file system replaces the old file on a rename, but a hard link fails if the name is taken.
- Object stores have no atomic rename. A file that is created without overwriting appears as a whole
  when it is closed, and is rejected if the name is taken. For S3 this holds for versions of Hadoop
  that send conditional requests; other versions check for the file before they write.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from orbitmq.errors import OrbitError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["STAGING", "ArchiveFiles"]

STAGING: Final = "_staging"
"""Directory of files that do not have their final names yet."""
_OBJECT_STORES: Final = ("s3", "s3a", "s3n", "gs", "oss", "cosn", "obs", "wasb", "wasbs")


class ArchiveFiles:
    """Files below the root directory of an archive."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        self.root = root.rstrip("/")
        self._jvm = jvm
        self._fs = jvm.org.apache.hadoop.fs.Path(root).getFileSystem(
            spark._jsc.hadoopConfiguration()
        )
        self._scheme = str(self._fs.getUri().getScheme())

    def url(self, path: str) -> str:
        """Return a path below the root as Spark needs it."""
        return f"{self.root}/{path}"

    def _at(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.url(path))

    def exists(self, path: str) -> bool:
        """Return True if the file or directory exists."""
        return bool(self._fs.exists(self._at(path)))

    def delete(self, path: str) -> None:
        """Delete a file or directory if it exists."""
        self._fs.delete(self._at(path), True)

    def move(self, source: str, target: str) -> None:
        """Rename a file; the new name must be free."""
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

    def read_text_if_there(self, path: str) -> str | None:
        """Return the content of a small file, or None if the file does not exist."""
        try:
            return self.read_text(path)
        except Py4JJavaError as error:
            if _is(error, "FileNotFoundException", "NoSuchFileException"):
                return None
            raise

    def create_text(self, path: str, text: str) -> bool:
        """Create a small file atomically; return False if the name is taken.

        If several processes create a file with the same name at the same time, one succeeds.
        """
        target = self._at(path)
        if self._fs.exists(target):
            return False
        try:
            if self._scheme in _OBJECT_STORES:
                self._write(target, text)
                return True
            unfinished = self._at(f"{STAGING}/{uuid.uuid4().hex}")
            try:
                self._write(unfinished, text)
                return self._name(unfinished, target)
            finally:
                self._fs.delete(unfinished, False)
        except Py4JJavaError as error:
            if _is(error, "FileAlreadyExistsException"):
                return False
            raise

    def _write(self, target: Any, text: str) -> None:
        stream = self._fs.create(target, False)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _name(self, unfinished: Any, target: Any) -> bool:
        self._fs.mkdirs(target.getParent())
        if self._scheme != "file":
            return bool(self._fs.rename(unfinished, target))
        nio, File = self._jvm.java.nio.file.Files, self._jvm.java.io.File
        here, there = (File(path.toUri().getPath()).toPath() for path in (unfinished, target))
        try:
            nio.createLink(there, here)
            return True
        except Py4JJavaError as error:
            if not _is(error, "FileSystemException", "UnsupportedOperationException"):
                raise
            # This disk has no hard links. Without them, two processes that check for the name at
            # the same moment can both succeed.
            return bool(self._fs.rename(unfinished, target))

    def below(self, directory: str) -> list[tuple[str, int]]:
        """Return every file below a directory with its size, except hidden files."""
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


def _is(error: Py4JJavaError, *names: str) -> bool:
    """Return True if the Java exception's class has one of the names, in any package."""
    return str(error.java_exception.getClass().getSimpleName()) in names
