"""Image headers: what the first bytes of a picture say, and what anybody's bytes may not do."""

import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine import is_quick
from tests.ports.pictures import gif, jpeg, png, webp

from finclaw.storage.blobs.directory import ImageHeader, read_image_header

LOSSY = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 800, 600)
LOSSLESS = b"\x2f" + struct.pack("<I", 799 | 599 << 14)
EXTENDED = bytes(4) + (799).to_bytes(3, "little") + (599).to_bytes(3, "little")
EXIF = b"\xff\xe1" + struct.pack(">H", 4_002) + bytes(4_000)
PICTURES = {
    "png": (png(800, 600), "image/png"),
    "gif": (gif(800, 600), "image/gif"),
    "jpeg": (jpeg(800, 600), "image/jpeg"),
    "jpeg with metadata": (jpeg(800, 600, before=EXIF + b"\xff\xff\xff\xd0"), "image/jpeg"),
    "webp": (webp(b"VP8 ", LOSSY), "image/webp"),
    "webp lossless": (webp(b"VP8L", LOSSLESS), "image/webp"),
    "webp extended": (webp(b"VP8X", EXTENDED), "image/webp"),
}


@pytest.mark.parametrize(("data", "media_type"), PICTURES.values(), ids=PICTURES)
def test_type_and_size_are_read(data: bytes, media_type: str) -> None:
    assert read_image_header(data) == ImageHeader(media_type, 800, 600)


@pytest.mark.parametrize(("data", "media_type"), PICTURES.values(), ids=PICTURES)
def test_one_that_is_cut_off_says_nothing_or_the_truth(data: bytes, media_type: str) -> None:
    for end in range(len(data)):
        assert read_image_header(data[:end]) in (None, ImageHeader(media_type, 800, 600))
    assert read_image_header(data[:9]) is None


@pytest.mark.parametrize("data", [b"", b"<svg/>", b"%PDF-1.7", png(0, 5), gif(5, 0), b"\xff\xd8" + b"\xff" * 9_000])
def test_what_is_no_picture_has_no_header(data: bytes) -> None:
    assert read_image_header(data) is None


def test_a_picture_of_nothing_but_segments_ends() -> None:
    assert read_image_header(b"\xff\xd8" + b"\xff\xd0" * 1_000_000) is None


@pytest.mark.parametrize("unit", [b"\xff", b"\xff" * 60_000 + b"\xe0\x00\x02", b"\xff\xe0\x00\x02", b"\xff\x01"])
def test_a_picture_of_20_megabytes_is_read_at_once(unit: bytes) -> None:
    data = b"\xff\xd8" + unit * (20_000_000 // len(unit))
    began = time.process_time()
    assert read_image_header(data) is None
    assert is_quick(time.process_time() - began, 0.1)


def test_filling_between_segments_is_allowed() -> None:
    data = b"\xff\xd8" + b"\xff" * 500 + b"\xe0\x00\x02" + b"\xff" * 7 + b"\xc0\x00\x11\x08\x02\x58\x03\x20"
    assert read_image_header(data) == ImageHeader("image/jpeg", 800, 600)


@given(st.sampled_from([data[:12] for data, _ in PICTURES.values()]), st.binary(max_size=200))
def test_no_bytes_are_too_much(start: bytes, rest: bytes) -> None:
    header = read_image_header(start + rest)
    assert header is None or min(header.width, header.height) > 0
