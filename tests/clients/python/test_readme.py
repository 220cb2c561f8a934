"""The quick start of README.md works as it is written."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import servers

ADDRESS = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def blocks():
    """Language and text of the fenced blocks."""
    readme = (servers.REPOSITORY / "README.md").read_text()
    section = readme.split("<!-- quick start -->\n")[1].split("<!-- end of quick start -->")[0]
    return re.findall(r"^```(\w*)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def here(blocks):
    """The server that the quick start starts, on another port; turns the quick start's text into one for that port."""
    (line,) = [line for _, text in blocks for line in text.splitlines() if "taper serve" in line]
    binary, serve, model, *arguments = shlex.split(line)
    assert (binary, serve, Path(model).name) == ("target/release/taper", "serve", servers.SMOLLM2_FILE)
    with servers.taper(servers.smollm2(), *arguments) as server:
        yield lambda text: text.replace(ADDRESS, server.url)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    return done.stdout


def test_the_curl_commands_are_answered(blocks, here):
    commands = [text for language, text in blocks if language == "" and text.startswith("curl ")]
    assert commands, "the quick start has lost its curl command"
    for command in commands:
        assert ADDRESS in command
        answer = json.loads(run(["bash", "-c", here(command)]))
        assert "Paris" in answer["choices"][0]["message"]["content"]


def test_the_python_code_prints_the_answer(blocks, here):
    (code,) = [text for language, text in blocks if language == "python"]
    assert ADDRESS in code
    assert "Paris" in run([sys.executable, "-c", here(code)])


def test_the_pages_it_names_are_there(blocks, here):
    page = run(["curl", "--silent", "--fail", here(f"{ADDRESS}/docs/")])
    assert "swagger-ui" in page
