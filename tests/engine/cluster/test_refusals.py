"""What is refused before anything is sent: no cluster is needed to see it."""

import json
import socket

import pytest

from pdac_cli.engine.cluster.job_folder import JobFolder
from pdac_cli.errors import StorageError

TLS = ("--tls-ca-file", "ca.pem", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
REFUSED = [
    (["--scheduler", "localhost:8786"], "--scheduler is 'localhost:8786'; expected tcp://HOST:PORT or tls://HOST:PORT"),
    (["--scheduler", "tcp://a:1", "--workers", "2"], "expected one place to work"),
    (["--scheduler-file", "a.json", "--cluster", "slurm"], "expected one place to work"),
    (["--cluster", "slum"], "did you mean slurm?"),
    (["--workers", "0"], "--workers is 0; expected at least 1"),
    (["--worker-timeout", "0"], "--worker-timeout is 0.0; expected a number above 0"),
    (["--unit", "1"], "--unit is '1'; expected a size of at least 4k"),
    (["--scheduler", "tls://a:1"], "--tls-ca-file"),
    (["--scheduler", "tls://a:1", *TLS[:2]], "TLS needs all of --tls-ca-file, --tls-cert and --tls-key"),
    (["--workers", "1", "--device", "cpu"], "--device"),
]  # fmt: skip


@pytest.mark.parametrize("verb", ["fit", "select"])
@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_cannot_be_meant_is_refused(pdac, feature_file, tmp_path, verb, options, message):
    more = ["--budget", "3"] if verb == "select" else []
    result = pdac(verb, feature_file(), "-o", tmp_path / "out.h5", *more, *options)
    assert result.code == 2
    assert message in result.err
    assert not (tmp_path / "out.h5").exists()


def test_a_method_that_a_cluster_cannot_do_says_so(pdac, feature_file):
    result = pdac("select", feature_file(), "--budget", "3", "--method", "kmeans", "--workers", "2")
    assert result.code == 2
    assert (
        "--method kmeans cannot work on a cluster; expected one of: pdac, uniform, least-error, kcenter, herding"
        in (result.err)
    )


@pytest.mark.parametrize("text", ["", "[1]", '{"address": 3}', '{"address": "http://x"}', "\x1b[2J"])
def test_a_file_that_no_scheduler_has_written(pdac, feature_file, tmp_path, text):
    path = tmp_path / "scheduler.json"
    path.write_text(text)
    result = pdac("select", feature_file(), "--budget", "3", "--scheduler-file", path)
    assert result.code == 5
    assert "scheduler.json" in result.err
    assert "expected" in result.err
    assert "\x1b" not in result.err


def test_certificates_that_are_not_there(pdac, feature_file):
    result = pdac("select", feature_file(), "--budget", "3", "--scheduler", "tls://127.0.0.1:1", *TLS)
    assert result.code == 5
    assert "ca.pem: not found" in result.err


@pytest.mark.slow
def test_a_scheduler_that_cannot_be_reached_is_said_within_ten_seconds(pdac, feature_file, tmp_path):
    with socket.socket() as taken:  # nobody answers there
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        (tmp_path / "s.json").write_text(json.dumps({"address": address}))
        result = pdac("select", feature_file(), "--budget", "3", "--scheduler-file", tmp_path / "s.json")
    assert result.code == 5
    assert f"{address}: the scheduler cannot be reached" in result.err


@pytest.mark.slow
def test_an_open_scheduler_elsewhere_is_warned_of(pdac, feature_file):
    result = pdac("select", feature_file(), "--budget", "3", "--scheduler", "tcp://192.0.2.1:8786")
    assert result.code == 5
    assert "warning: tcp://192.0.2.1:8786: Dask does not ask who connects over tcp://" in result.err


def test_a_folder_that_others_may_write_is_not_taken(tmp_path):
    first, found = JobFolder.make(tmp_path, "k")
    assert not found
    assert first.path.stat().st_mode & 0o777 == 0o700
    first.save("a", [1])
    again, found = JobFolder.make(tmp_path, "k")
    assert found
    assert again.load("a") == [1]
    again.path.chmod(0o770)
    with pytest.raises(StorageError, match="is in the way"):
        JobFolder.make(tmp_path, "k")
    first.remove()
    assert not list(tmp_path.iterdir())


def test_files_of_a_folder_appear_whole(tmp_path, monkeypatch):
    folder, _ = JobFolder.make(tmp_path, "k")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StorageError, match="no space left"):
        folder.write("rows", b"123")
    assert [path.name for path in folder.path.iterdir()] == ["alive"]
