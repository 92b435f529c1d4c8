"""The certificate of a served plane: made once, kept, and known by its fingerprint.

A self-signed one on the curve P-256. Nobody vouches for it: who joins pins the SHA-256 of its DER
form, which the line to paste carries. So a name in it means nothing, and its end is far away. One
from elsewhere may be given instead, and is pinned in the same way.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from hashlib import sha256

from gpulayer.clock import Clock
from gpulayer.errors import GPULayerError, StorageError, UsageError

KEY_FILE, CERTIFICATE_FILE = "serve.key", "serve.crt"
YEARS = 20


@dataclass(frozen=True, slots=True)
class Certificate:
    chain: str
    """Path of the PEM file, the server's own certificate first."""
    key: str
    fingerprint: str
    """Hex SHA-256 of the certificate's DER form."""

    def context(self) -> ssl.SSLContext:
        """For the server's side: TLS 1.2 and later, no client certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.chain, self.key)
        except (OSError, ssl.SSLError) as error:
            raise _unusable(self.chain, f"certificate and key do not load: {error}") from error
        context.set_alpn_protocols(["http/1.1"])
        return context


def own(folder: str, clock: Clock) -> Certificate:
    """That of this home; made when there is none. Raises `folder-unsafe` where its key can be
    read by others."""
    chain, key = os.path.join(folder, CERTIFICATE_FILE), os.path.join(folder, KEY_FILE)
    if not (os.path.lexists(chain) and os.path.lexists(key)):
        _make(chain, key, clock)
    found = os.lstat(key)
    if found.st_uid != os.geteuid() or found.st_mode & 0o177 != 0:
        raise StorageError(
            "folder-unsafe",
            "the server's key must be readable by its owner alone, and is not",
            where=key,
            why=f"it belongs to user {found.st_uid} and its mode is {found.st_mode & 0o7777:o}",
            hint=f"chmod 600 {key}",
        )
    return given(chain, key)


def given(chain: str, key: str) -> Certificate:
    """One from elsewhere, as PEM files."""
    return Certificate(chain, key, fingerprint_of(chain))


def fingerprint_of(chain: str) -> str:
    """Of the first certificate in a PEM file."""
    try:
        with open(chain, encoding="ascii") as file:
            text = file.read()
        begin = text.index("-----BEGIN CERTIFICATE-----")
        end = text.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")
        return sha256(ssl.PEM_cert_to_DER_cert(text[begin:end])).hexdigest()
    except OSError as error:
        raise _unusable(chain, error.strerror or str(error)) from error
    except ValueError as error:
        raise _unusable(chain, "it holds no certificate in PEM form") from error


def names_in(chain: str) -> list[str]:
    """The host names that the first certificate in a PEM file is for; ours has none."""
    from cryptography import x509

    with open(chain, "rb") as file:
        found = x509.load_pem_x509_certificate(file.read())
    try:
        extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return extension.value.get_values_for_type(x509.DNSName)


def _make(chain: str, key: str, clock: Clock) -> None:
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpulayer")])
    today = datetime.fromtimestamp(clock.now(), UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))  # clocks differ
        .not_valid_after(today + timedelta(days=365 * YEARS))
        .sign(secret, hashes.SHA256())
    )
    # The key first: a certificate that is there has its key.
    _write(
        key,
        secret.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
    _write(chain, made.public_bytes(serialization.Encoding.PEM))


def _write(path: str, data: bytes) -> None:
    """A file of 0600, whole or not at all, in place of one that nobody could use."""
    draft = f"{path}.{os.getpid()}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    os.rename(draft, path)


def _unusable(path: str, why: str) -> GPULayerError:
    return UsageError(
        "usage",
        "the certificate cannot be used",
        where=path,
        why=why,
        hint="gpulayer serve --help",
    )
