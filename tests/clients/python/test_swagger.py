"""Swagger UI in a real browser: operations are shown, tried out and answered, and nothing comes from elsewhere."""

import os
import shutil
import subprocess

import servers
from conftest import KEY
from test_node import NODE

SCREENSHOTS = servers.REPOSITORY / "target" / "clients" / "screenshots"


def open_in_browser(url, name, key=None):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    command = ["node", "swagger.mjs", url, shutil.which("chromium"), str(SCREENSHOTS / f"{name}.png")]
    environment = {**os.environ, "TAPER_KEY": key or ""}
    done = subprocess.run(command, cwd=NODE, env=environment, capture_output=True, text=True, timeout=180)
    print(done.stdout, done.stderr)
    assert done.returncode == 0


def test_operations_can_be_tried_out(chat_server):
    open_in_browser(chat_server.url, "swagger")


def test_a_key_is_taken_as_the_browser_s_password(locked_server):
    open_in_browser(locked_server.url, "swagger-with-a-key", KEY)


def test_operations_can_be_tried_out_below_a_path():
    with servers.taper(servers.TINY, "--alias", "tiny", "--trusted-proxies", "127.0.0.1") as server:
        with servers.nginx("prefix.conf", TAPER=server.url) as url:
            open_in_browser(f"{url}/llm", "swagger-below-a-path")
