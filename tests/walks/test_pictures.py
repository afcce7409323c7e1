"""A picture that a person sends: kept before its message is accepted, and shown to the model."""

import pytest
from tests.ports.pictures import png
from tests.walks.house import Gateway, House, in_virtual_time

from finclaw.errors import SessionError
from finclaw.kernel.envelope import Attachment
from finclaw.kernel.message import Image


async def picture(gateway: Gateway, data: bytes) -> Attachment:
    """As a channel makes it."""
    blob = await gateway.app.put_blob(data)
    return Attachment(id="1", kind="image", mime=blob.media_type, blob=blob.sha256)


@in_virtual_time
async def test_the_model_is_shown_the_picture_and_rows_hold_its_name(house: House) -> None:
    async with house.open("a chart", "still there") as gateway:
        attached = await picture(gateway, png(40, 30, salt="the content"))
        await gateway.ask("what is this?", attachments=(attached,))
        shown = [block for block in gateway.seen[-1].blocks if isinstance(block, Image)]
        assert shown == [Image("image/png", blob=str(attached.blob))]
        assert "cannot see" not in gateway.seen[-1].text
        await gateway.ask("and now?")
        assert shown[0] in gateway.seen[0].blocks, "it stays in the conversation"
    database = (house.state / "finclaw.db").read_bytes()
    assert b"the content" not in database
    assert str(attached.blob).encode() in database


@in_virtual_time
async def test_other_files_are_told_of_in_words(house: House) -> None:
    async with house.open("ok") as gateway:
        blob = await gateway.app.put_blob(b"%PDF-1.7", "application/pdf")
        paper = Attachment(id="2", kind="file", name="a.pdf", mime=blob.media_type, blob=blob.sha256)
        await gateway.ask("look", attachments=(await picture(gateway, png()), paper))
        assert "a file (a.pdf). You cannot see what is in it" in gateway.seen[-1].text
        assert "a picture" not in gateway.seen[-1].text


@in_virtual_time
async def test_a_message_whose_picture_is_not_kept_is_not_accepted(house: House) -> None:
    async with house.open("never") as gateway:
        with pytest.raises(SessionError, match="put it first"):
            await gateway.channel.write("look", attachments=(Attachment(id="1", kind="image", blob="0" * 64),))
        assert gateway.provider.requests == []


@in_virtual_time
async def test_what_a_crash_left_is_swept_at_the_next_start(house: House) -> None:
    async with house.open("ok") as gateway:
        attached = await picture(gateway, png())
        await gateway.ask("look", attachments=(attached,))
    (house.state / "blobs" / ("0" * 64)).write_bytes(b"its row was never written")
    async with house.open("ok"):
        pass
    assert [path.name for path in (house.state / "blobs").iterdir()] == [attached.blob]
