"""Inputs that a worker fetches from addresses: real servers over TLS, real buckets, and all that
may be wrong with either."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpulayer.artifacts import web
from gpulayer.contracts.named import ADDRESS
from gpulayer.errors import GPULayerError, PreparationError
from gpulayer.worker.environments.building import TakenBackError
from gpulayer.worker.steps.plan import Watch
from tests.support.object_stores import SECRET, ObjectStore
from tests.support.tls_server import Identity, authority
from tests.support.web_site import WebSite
from tests.unit.worker.preparing import Terminal, assignment, prepare, runner_of

MB = 1 << 20
DATA = os.urandom(MB) * 3
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def site() -> Iterator[WebSite]:
    site = WebSite(Identity().context())
    site.files["/data.bin"] = DATA
    try:
        yield site
    finally:
        site.close()


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("trust") / "ca.pem"
    authority().cert_pem.write_to_path(str(path))
    return {"SSL_CERT_FILE": str(path)}


def wanted(url: str, digest: str = DIGEST) -> dict[str, Any]:
    return {"inputs": [{"artifact": ADDRESS + digest, "path": "in/data", "url": url}]}


def staged(folder: Path, url: str, environ: Mapping[str, str], digest: str = DIGEST) -> bytes:
    prepare(runner_of(folder, {}), wanted(url, digest), Terminal(**environ))
    return (folder / "t1" / "in" / "in" / "data").read_bytes()


def failure(folder: Path, url: str, environ: Mapping[str, str], digest: str = DIGEST) -> str:
    """Why it was refused; nothing is left then."""
    with pytest.raises(PreparationError) as refused:
        staged(folder, url, environ, digest)
    error = refused.value
    assert error.code == "fetch-failed"
    assert "in/data" in error.message
    assert "lab-1" in error.message
    assert "?" not in error.where
    assert not (folder / "t1").exists()
    assert not any(path.stat().st_size for path in (folder / "cache").glob("*"))
    return error.why


def test_a_file_of_a_web_server_is_fetched_once(
    site: WebSite, trust: dict[str, str], tmp_path: Path
) -> None:
    url = f"{site.url}/data.bin?token=abc"
    assert staged(tmp_path, url, trust) == DATA
    runner = runner_of(tmp_path, {})
    prepare(runner, wanted(url), Terminal(**trust))
    assert site.asked == [("/data.bin", "")], "the second time it is here"


def test_what_is_cut_goes_on(site: WebSite, trust: dict[str, str], tmp_path: Path) -> None:
    site.cut_after = MB
    assert staged(tmp_path, f"{site.url}/data.bin", trust) == DATA
    assert [wish for _, wish in site.asked] == ["", f"bytes={MB}-", f"bytes={2 * MB}-"]


def test_a_server_that_gives_no_parts_and_cuts_never_gets_there(
    site: WebSite, trust: dict[str, str], tmp_path: Path
) -> None:
    site.cut_after, site.has_parts = MB, False
    assert "in the middle" in failure(tmp_path, f"{site.url}/data.bin", trust)


@pytest.mark.parametrize("digest", ["0" * 64, hashlib.sha256(b"").hexdigest()])
def test_another_file_than_was_named_is_no_input(
    digest: str, site: WebSite, trust: dict[str, str], tmp_path: Path
) -> None:
    why = failure(tmp_path, f"{site.url}/data.bin?token=abc", trust, digest)
    assert digest[:12] in why
    assert "token" not in why
    assert DIGEST[:12] in why


def test_redirects_are_followed_a_few_times_and_never_to_less(
    site: WebSite, trust: dict[str, str], tmp_path: Path
) -> None:
    site.redirects = {"/a": "/b", "/b": f"{site.url}/data.bin", "/loop": "/loop"}
    assert staged(tmp_path, f"{site.url}/a", trust) == DATA
    assert "not followed" in failure(tmp_path / "x", f"{site.url}/loop", trust, "1" * 64)
    plain = WebSite()
    try:
        plain.files["/data.bin"] = DATA
        for where in (f"{plain.url}/data.bin?secret=1", "file:///etc/passwd", "ftp://x/y"):
            site.redirects["/less"] = where
            why = failure(tmp_path / "y", f"{site.url}/less", trust, "2" * 64)
            assert "not followed" in why
            assert "secret" not in why
        assert plain.asked == []
    finally:
        plain.close()


def test_who_is_not_trusted_not_there_or_silent(
    site: WebSite, trust: dict[str, str], tmp_path: Path
) -> None:
    assert "certificate" in failure(tmp_path / "a", f"{site.url}/data.bin", {})
    assert "404" in failure(tmp_path / "b", f"{site.url}/nothing", trust)
    assert "refused" in failure(tmp_path / "c", "https://localhost:9/x", trust)


def test_more_than_may_be_is_not_fetched(
    site: WebSite, trust: dict[str, str], tmp_path: Path
) -> None:
    with (tmp_path / "file").open("w+b") as sink, pytest.raises(web.WebError, match="more than"):
        web.download(f"{site.url}/data.bin", sink, most=MB, environ=trust)
    assert (tmp_path / "file").stat().st_size == 0


def test_a_job_that_is_cancelled_meanwhile_ends_the_fetch(
    site: WebSite, trust: dict[str, str], tmp_path: Path
) -> None:
    entered: list[str] = []
    watch = Watch(lambda: not entered, entered.append)
    task = assignment(wanted(f"{site.url}/data.bin"), envelope_id="e")
    with pytest.raises(TakenBackError):
        runner_of(tmp_path, {}).prepare(task, Terminal(**trust), watch)
    assert entered == ["staging"]


@pytest.mark.parametrize("server", ["moto", "rclone"])
def test_an_object_of_a_bucket(server: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    store: ObjectStore = request.getfixturevalue(server)
    bucket = store.make_bucket()
    artifacts = store.artifacts(tmp_path / "artifacts", f"s3://{bucket}")
    artifacts.put_stream([DATA])
    key = f"sha256/{DIGEST[:2]}/{DIGEST}"
    assert staged(tmp_path / "a", f"s3://{bucket}/{key}", store.environ) == DATA
    why = failure(tmp_path / "b", f"s3://{bucket}/{key}", store.environ, "0" * 64)
    assert "another file" in why
    assert "no such object" in failure(tmp_path / "c", f"s3://{bucket}/nothing", store.environ)
    assert "no such bucket" in failure(tmp_path / "d", "s3://no-bucket/x", store.environ)


def test_a_bucket_with_wrong_keys_or_none(rclone: ObjectStore, tmp_path: Path) -> None:
    url = f"s3://{rclone.make_bucket()}/x"
    wrong = {**rclone.environ, "AWS_SECRET_ACCESS_KEY": "wrong-secret-000000000000"}
    why = failure(tmp_path / "a", url, wrong)
    assert "let us in" in why
    assert "wrong-secret" not in why
    assert SECRET not in why


def test_keys_are_those_of_the_terminal_or_of_the_worker_and_never_of_the_spec(
    rclone: ObjectStore, tmp_path: Path
) -> None:
    """A job of elsewhere has the worker's, here without any."""
    runner = runner_of(tmp_path, {})
    spec = {**wanted(f"s3://{rclone.make_bucket()}/x"), "env": dict(rclone.environ)}
    with pytest.raises(GPULayerError) as refused:
        prepare(runner, spec)
    assert refused.value.code == "fetch-failed"
