"""A message with an attachment in a state directory, as a channel would have left it."""

import asyncio
from pathlib import Path

from tests.ports.nouns import ended, nobody, nothing
from tests.ports.pictures import png

from finclaw.clock import SystemClock
from finclaw.kernel.envelope import Attachment, Inbound, Sender
from finclaw.storage.kinds import StoreKind, open_kind


def keep_file(state: Path, session: str, words: str = "") -> str:
    """A picture that holds these words, sent by the owner in this session; its name."""
    kind: StoreKind = "jsonl" if "jsonl" in (state / "finclaw.yaml").read_text() else "sqlite"
    return asyncio.run(_keep(state, kind, session, png(salt=words)))


async def _keep(state: Path, kind: StoreKind, session: str, data: bytes) -> str:
    store = open_kind(kind, state, SystemClock(), lambda _: None)
    try:
        blob = await store.put_blob(data)
        picture = Attachment(id="a", kind="image", mime=blob.media_type, blob=blob.sha256)
        inbound = Inbound(
            text="look",
            channel="web",
            account="owner",
            conversation="main",
            sender=Sender("owner"),
            attachments=(picture,),
        )
        accepted = await store.accept(inbound, session, nobody)
        await store.end(accepted.id, ended("skipped", None), (), nothing)
        return blob.sha256
    finally:
        await store.close()
