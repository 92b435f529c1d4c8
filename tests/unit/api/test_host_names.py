"""By which names strangers may call a plane."""

from __future__ import annotations

import pytest

from gpulayer.api.host_names import HostNames
from gpulayer.clock import SystemClock
from gpulayer.sdk import certificate, listening
from tests.support.env import Env
from tests.support.knocking import Knocking

OURS = HostNames(["Lab", "lab.example.", "*.wild.example"])


@pytest.mark.parametrize(
    "host",
    [
        "lab", "LAB:8765", "lab.example", "lab.example.:8765", "a.wild.example", "localhost",
        "192.0.2.7", "192.0.2.7:8765", "[2001:db8::1]", "[2001:db8::1]:8765", "127.0.0.1",
    ],
)  # fmt: skip
def test_what_is_ours(host: str) -> None:
    assert OURS.answers(host.encode(), is_plain=False)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "lab.evil.example", "xlab", "wild.example", "a.b.wild.example",
        "*.wild.example.evil", "", ":8765", "lab:x", "lab@evil", "lab/evil", "192.0.2.7.evil",
        "[192.0.2.7", "2001:db8::1", "lab\xe9", "lab evil", "lab, evil",
    ],
)  # fmt: skip
def test_what_is_not(host: str) -> None:
    assert not OURS.answers(host.encode("latin-1"), is_plain=False)


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [("localhost:1", True), ("127.0.0.9", True), ("[::1]:1", True), ("192.0.2.7", False),
     ("lab", False)],
)  # fmt: skip
def test_without_tls_it_is_loopback_alone(host: str, is_ours: bool) -> None:
    assert OURS.answers(host.encode(), is_plain=True) is is_ours


def test_every_host_header_must_be_ours() -> None:
    with Env() as env:
        door = Knocking(env)
        token = door.token("viewer")

        def asked(*hosts: str) -> int:
            headers = [("host", host) for host in hosts]
            return door.ask("GET", "/v1/jobs", token=token, headers=headers)[0]

        assert [asked("lab.example"), asked("a.lab.example:8765"), asked()] == [200, 200, 200]
        assert [asked("evil.example"), asked("lab.example", "evil.example")] == [400, 400]
        told = door.ask("GET", "/v1/jobs", token=token, headers=[("host", "evil.example")])[1]
        assert "'evil.example'" in told["error"]["message"]
        assert "lab.example" in told["error"]["why"]
        door.close()


def test_the_names_of_a_certificate_and_of_an_address_are_known(tmp_path: object) -> None:
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = str(tmp_path)
    assert certificate.names_in(certificate.own(folder, SystemClock()).chain) == []
    today = datetime.fromtimestamp(SystemClock().now(), UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    names = [x509.DNSName("lab.example"), x509.DNSName("*.lab.example")]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today)
        .not_valid_after(today + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    chain = f"{folder}/chain.pem"
    with open(chain, "wb") as file:
        file.write(made.public_bytes(serialization.Encoding.PEM))
    assert certificate.names_in(chain) == ["lab.example", "*.lab.example"]
    assert "lab.lan" in listening.names_of(listening.parse("lab.lan:8765"))
