"""A TLS server with a certificate of its own."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

OURS = "IP:127.0.0.1"


def certified(place: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    """A server's side, and the certificate that whoever trusts it needs."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes this test's certificate, and it is not here")
    key, made = place / f"{name[:2]}.key", place / f"{name[:2]}.pem"
    if not made.exists():
        words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
        words += ["-addext", f"subjectAltName={name}", "-keyout", str(key), "-out", str(made)]
        subprocess.run([openssl, *words], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return context, made
