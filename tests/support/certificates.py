"""A certificate authority for tests, and certificates that it signs, all PEM."""

import subprocess
from pathlib import Path

STORE_PASSWORD = "changeit"
"""The password of Java's stores, which hold nothing secret here."""


class Authority:
    """Makes files in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        _openssl(
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
            "-keyout",
            self._key,
            "-out",
            self.certificate,
        )

    def sign(self, name: str) -> tuple[Path, Path]:
        """A key and its certificate, for a server on the loopback address or a client."""
        key, request, certificate = (self._folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        _openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        extensions = self._folder / "extensions"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        _openssl(
            "x509",
            "-req",
            "-in",
            request,
            "-CA",
            self.certificate,
            "-CAkey",
            self._key,
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            extensions,
            "-out",
            certificate,
        )
        return key, certificate


def key_store(file: Path, key: Path, certificate: Path) -> Path:
    """A server's key and certificate in one file, as Java reads them."""
    given = ("-in", certificate, "-inkey", key, "-passout", f"pass:{STORE_PASSWORD}")
    _openssl("pkcs12", "-export", *given, "-out", file)
    return file


def trust_store(file: Path, certificate: Path) -> Path:
    """The certificate of an authority, as Java reads it."""
    store = ["-keystore", file, "-storetype", "PKCS12", "-storepass", STORE_PASSWORD]
    _run("keytool", "-importcert", "-noprompt", "-alias", "lake", "-file", certificate, *store)
    return file


def _openssl(*arguments: str | Path) -> None:
    _run("openssl", *arguments)


def _run(*command: str | Path) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
