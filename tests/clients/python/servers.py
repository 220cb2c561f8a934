"""Starts `taper serve` and nginx for a test, waits until they answer, and always ends them."""

import os
import re
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import requests

REPOSITORY = Path(__file__).resolve().parents[3]
BINARY = REPOSITORY / os.environ.get("CARGO_TARGET_DIR", "target") / "release" / "taper"
# Two layers, 256 tokens of context: for tests that do not care what it says.
TINY = REPOSITORY / "tests" / "fixtures" / "tiny_gguf" / "llama.gguf"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# What the servers said, kept for when a test fails.
LOGS = REPOSITORY / "target" / "clients" / "logs"
TEMPLATES = REPOSITORY / "tests" / "clients" / "nginx"

# Loading takes a second or two; a busy machine gets more.
SECONDS_TO_START = 60
SECONDS_TO_STOP = 20


def smollm2():
    """The downloaded model (`scripts/models.py test`)."""
    directory = os.environ.get("TAPER_TEST_MODELS")
    if not directory:
        raise RuntimeError("TAPER_TEST_MODELS is not set; run these tests by scripts/clients")
    return Path(directory) / SMOLLM2_FILE


def wait_until(condition, what, seconds=30):
    """The first true value of `condition`, which is asked again and again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds} s")


class Server:
    """A running `taper serve`."""

    def __init__(self, url, key):
        self.url = url
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def get(self, path):
        return requests.get(f"{self.url}{path}", headers=self.headers, timeout=10)

    def metrics(self):
        """From metric, labels included, to value."""
        text = self.get("/metrics").text
        return {name: float(value) for name, value in re.findall(r"^([^#\s]\S*) (\S+)$", text, re.MULTILINE)}

    def is_idle(self):
        """No request runs or waits, and no KV block is used."""
        metrics = self.metrics()
        names = ["taper_requests_running", "taper_requests_waiting", 'taper_kv_blocks{state="used"}']
        return all(metrics[name] == 0 for name in names)

    def has_running(self):
        return self.metrics()["taper_requests_running"] > 0


@contextmanager
def taper(model, *arguments, key=None):
    """A server with `model` on a free port, and without the caller's settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TAPER_")}
    command = [str(BINARY), "serve", str(model), "--port", "0", *arguments, *(["--api-key", key] if key else [])]
    LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=LOGS, prefix="taper-", suffix=".log", delete=False) as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

        def output():
            return Path(log.name).read_text(errors="replace")

        def announced():
            assert process.poll() is None, f"taper ended with {process.returncode}:\n{output()}"
            return re.search(r"^ *API +(http://\S+)/v1$", output(), re.MULTILINE)

        with ended(process, output):
            server = Server(wait_until(announced, "the announcement of taper", SECONDS_TO_START)[1], key)
            wait_until(lambda: server.get("/ready").ok, "/ready", SECONDS_TO_START)
            yield server


@contextmanager
def nginx(template, **values):
    """nginx with a configuration of `tests/clients/nginx`, its `@NAMES@` filled in; gives its URL."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="taper-nginx-") as directory:
        text = (TEMPLATES / template).read_text()
        for name, value in {"PORT": port, "DIRECTORY": directory, **values}.items():
            text = text.replace(f"@{name}@", str(value))
        Path(directory, "nginx.conf").write_text(text)
        command = ["nginx", "-p", directory, "-c", f"{directory}/nginx.conf", "-e", f"{directory}/error.log"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

        def output():
            return Path(directory, "error.log").read_text(errors="replace")

        def listens():
            assert process.poll() is None, f"nginx ended with {process.returncode}:\n{output()}"
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        with ended(process, output):
            wait_until(listens, "nginx")
            yield f"http://127.0.0.1:{port}"


@contextmanager
def ended(process, output):
    """Ends the process after the block; if the block failed, shows what the process said."""
    try:
        yield
    except BaseException:
        print(output())
        raise
    finally:
        process.terminate()
        try:
            process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
