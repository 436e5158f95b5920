# SPDX-License-Identifier: MIT
"""The keys of a fleet: whoever has them may submit and run work. One command makes them.

A certificate authority signs one certificate, for all members, and its own key is discarded: it can't add anybody
later. To exclude a member, all others need new keys.
"""

import datetime
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.output import replace_whole
from heaptape.fleet.store.files import MISSING

AUTHORITY, CERTIFICATE, KEY = "authority.pem", "member.pem", "member.key"
YEARS = 10


def make(folder: Path) -> None:
    """Makes keys in a folder. Raises HeaptapeError where there are keys already, or they can't be made."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError:
        raise HeaptapeError(f"fleet {MISSING}") from None
    if any((folder / name).exists() for name in (AUTHORITY, CERTIFICATE, KEY)):
        raise HeaptapeError(f"{folder}: has keys already")
    now = datetime.datetime.now(datetime.UTC)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "heaptape fleet authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "heaptape fleet member")])

    def certificate(name: x509.Name, public: ec.EllipticCurvePublicKey, is_authority: bool) -> x509.Certificate:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .sign(authority_key, hashes.SHA256())
        )

    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(folder / AUTHORITY, certificate(issuer, authority_key.public_key(), True).public_bytes(pem))
        _write(folder / CERTIFICATE, certificate(subject, key.public_key(), False).public_bytes(pem))
        _write(folder / KEY, secret)
    except OSError as error:
        raise HeaptapeError(f"{folder}: keys can't be written: {error.strerror}") from error


def _write(path: Path, data: bytes) -> None:
    """Writes a file that only its owner can read, from the first byte."""
    path.touch(mode=0o600)
    replace_whole(path, data)
