"""The cache that `taper pull` writes and the one that `huggingface_hub` writes are the same."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import filelock
import pytest
import servers

STAND_IN = servers.REPOSITORY / "tests" / "hub" / "stand_in.py"
WEIGHTS = bytes(range(256)) * 4096
FILES = {"config.json": b"{}", "tokenizer.json": b'{"model": {}}', "model.safetensors": WEIGHTS}
DOWNLOAD = "import huggingface_hub as h; print(h.snapshot_download('owner/name', local_files_only={}))"


class Hub:
    """The stand-in's address, and a home for the tools that ask it."""

    def __init__(self, url, home):
        self.home = home
        self.repository = home / "hub" / "models--owner--name"
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TAPER_"))}
        self.environment = clean | {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

    def start(self, *command):
        return subprocess.Popen(command, env=self.environment, stdout=-1, stderr=-1, text=True)

    def run(self, *command):
        process = self.start(*command)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return out.strip()

    def taper_pull(self):
        return json.loads(self.run(servers.BINARY, "pull", "owner/name", "--json"))

    def python_download(self, local_files_only=False):
        return Path(self.run(sys.executable, "-c", DOWNLOAD.format(local_files_only)))


@pytest.fixture
def hub(tmp_path):
    directory = tmp_path / "served" / "owner" / "name"
    directory.mkdir(parents=True)
    for name, content in FILES.items():
        (directory / name).write_bytes(content)
    command = [sys.executable, STAND_IN, tmp_path / "served"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stand_in:
        yield Hub(json.loads(stand_in.stdout.readline())["hub"], tmp_path / "home")
        stand_in.stdin.close()


def test_the_stand_in_is_a_hub_to_the_real_client(hub):
    snapshot = hub.python_download()
    assert {file.name: file.read_bytes() for file in snapshot.iterdir()} == FILES


def test_the_real_client_finds_what_taper_pulled(hub):
    pulled = hub.taper_pull()
    assert hub.python_download(local_files_only=True) == Path(pulled["path"])


def test_the_real_client_sees_a_sound_cache(hub):
    hub.taper_pull()
    scan = "import huggingface_hub as h; i = h.scan_cache_dir(); print([i.size_on_disk, len(i.repos), len(i.warnings)])"
    size = sum(len(content) for content in FILES.values())
    assert json.loads(hub.run(sys.executable, "-c", scan)) == [size, 1, 0]


def test_taper_needs_nothing_of_what_the_real_client_downloaded(hub):
    snapshot = hub.python_download()
    pulled = hub.taper_pull()
    assert (pulled["downloaded"], pulled["path"]) == (0, str(snapshot))


def test_both_name_the_blobs_alike(hub):
    hub.taper_pull()
    ours = {file.name for file in (hub.repository / "blobs").iterdir()}
    other = Hub(hub.environment["HF_ENDPOINT"], hub.home.with_name("other"))
    other.python_download()
    assert ours == {file.name for file in (other.repository / "blobs").iterdir()}


def test_taper_waits_for_the_lock_that_the_real_client_takes(hub):
    name = f"{hashlib.sha256(WEIGHTS).hexdigest()}.lock"
    lock = hub.home / "hub" / ".locks" / "models--owner--name" / name
    lock.parent.mkdir(parents=True)
    with filelock.FileLock(lock):
        process = hub.start(servers.BINARY, "pull", "owner/name")
        waits = "model.safetensors is being downloaded by another process; waiting\n"
        assert waits in iter(process.stderr.readline, "")
    process.communicate(timeout=60)
    assert process.returncode == 0
