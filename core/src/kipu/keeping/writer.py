"""What all changes of memory files have in common: the lock, write filters, encodings, and the index afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import KipuError, MemoryFileError, QueryError, WritingBusyError
from ..sqlite import shielded
from ..workspace.paths import HIDDEN_FOLDER
from ..workspace.text import NotTextError, TextFile
from .lock import WorkspaceLock
from .transaction import Transactions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from ..context import Context
    from ..index.database import Database
    from ..indexing.synchronizer import Synchronizer
    from .step import FileChange

Function = TypeVar("Function", bound="Callable[..., Coroutine[Any, Any, Any]]")


def retried(error: type[Exception], attempts: int) -> Callable[[Function], Function]:
    """Call a function again when it raises an error, so many times in all."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        async def call(*arguments: Any, **options: Any) -> Any:
            for _ in range(attempts - 1):
                with contextlib.suppress(error):
                    return await function(*arguments, **options)
            return await function(*arguments, **options)

        return cast("Function", call)

    return decorate


class Writer:
    """Writes the memory files of one workspace.

    :param context: what the memory works with.
    :param synchronizer: keeps the index in step with the files.
    """

    def __init__(self, context: Context, synchronizer: Synchronizer) -> None:
        self.context = context
        self.synchronizer = synchronizer
        self.lock = WorkspaceLock(context.workspace.root / HIDDEN_FOLDER)
        self.transactions = Transactions(context)

    @property
    def database(self) -> Database:
        """The database of the index."""
        return self.context.database

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the lock of the workspace, with what a killed process began finished, and the index up to date.

        If a component fails or is not installed, the index is used as it is.

        :raises WritingBusyError: another process holds the lock for too long.
        :raises MemoryFileError: the folder ``.kipu`` cannot be written, or what was begun cannot be finished.
        """
        async with self.lock.acquire():
            await shielded(asyncio.to_thread(self.transactions.recover))
            with contextlib.suppress(KipuError):  # `index` reports it, if it fails again
                await self.synchronizer.refresh()
            yield

    async def recover(self) -> None:
        """Finish what a killed process began, unless another process is writing or nothing can be written."""
        if self.transactions.remains():
            with contextlib.suppress(WritingBusyError, MemoryFileError):
                async with self.lock.acquire(wait=0):
                    await shielded(asyncio.to_thread(self.transactions.recover))

    async def commit(self, *changes: FileChange, kind: str = "", undoes: str = "") -> str | None:
        """Make all changes or none. Call it with the lock held. Return the name by which they can be undone.

        It is None if one is outside the workspace: such a change is not recorded.

        :param kind: what makes them; "" if they cannot be undone.
        :param undoes: the change that they take back.
        :raises FileChangedError: the content of a file is not as expected. Nothing was changed.
        :raises MemoryFileError: a file cannot be written.
        """
        work = asyncio.to_thread(self.transactions.commit, changes, kind, undoes)
        return await shielded(work)  # what has begun is finished

    async def index(self, *paths: str) -> None:
        """Index files that were changed, or all files if none is named. If that fails, say so: a search tries again."""
        try:
            await self.synchronizer.refresh(list(dict.fromkeys(paths)) or None)
        except KipuError as error:
            self.context.notices.add(f"Saved, but not indexed, so searches do not find it yet. {error}")

    def encode(self, file: TextFile, path: str) -> bytes:
        """Return the bytes of a file that is to be written.

        :raises MemoryFileError: its encoding lacks a character, or it would be too large to be indexed.
        """
        try:
            data = file.data()
        except UnicodeEncodeError as error:
            raise MemoryFileError(
                f"{path} is in {file.encoding}, which lacks {error.object[error.start]!r}. Save it as UTF-8 first."
            ) from None
        if len(data) > self.context.config.files.max_bytes:
            raise MemoryFileError(
                f"{path} would be larger than files.max_bytes in kipu.toml allows, so it would not be indexed. Nothing "
                "was changed."
            )
        with contextlib.suppress(NotTextError):
            if TextFile.parse(data).plain_lines == file.plain_lines:
                return data
        raise MemoryFileError(
            f"{path} is in {file.encoding}, and would be read in another encoding. Save it as UTF-8 first."
        )

    # --- write filters -----------------------------------------------------------------------------------------------

    async def filter(self, text: str, path: str, *, where: str = "") -> str:
        """Return a text as the write filters let it be written.

        :param where: the beginning of notices about a text that is not a part of the file.
        :raises PluginError: one of them failed or is not installed: nothing may be written then.
        """
        for write_filter in self.context.components.filters():
            filtered = await write_filter.filter(text, path)
            self.context.notices.add(*(f"{where}{notice}" for notice in filtered.notices))
            text = filtered.text
        return text

    async def filter_metadata(self, metadata: dict[str, str], path: str) -> dict[str, str]:
        """Return metadata as it may be written. A value is filtered with its key, which may tell that it is secret."""
        filtered = {}
        for key, value in metadata.items():
            await self._refuse_secrets("A key of the metadata", [key], path)
            pair = await self.filter(f"{key}: {value}", path, where="In the metadata: ")
            if not pair.startswith(f"{key}: "):
                pair = f"{key}: {await self.filter(value, path, where='In the metadata: ')}"
            filtered[key] = pair.removeprefix(f"{key}: ")
        return filtered

    async def refuse_secret_names(self, path: str) -> None:
        """Raise QueryError if a write filter finds a secret in the name of a file or of its folder.

        The name of a folder may be made from the id of a scope, so the id is checked as it was given.
        """
        parts = [*path.removesuffix(".md").split("/"), self.context.scope.id]
        await self._refuse_secrets("The name of the file or of its folder", parts, path)

    async def _refuse_secrets(self, what: str, parts: list[str], path: str) -> None:
        for write_filter in self.context.components.filters():
            for part in filter(None, parts):
                filtered = await write_filter.filter(part, path)
                if filtered.secret:
                    raise QueryError(f"{what} contains a secret. Nothing was written: choose another name.")
