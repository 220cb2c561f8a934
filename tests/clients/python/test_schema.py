"""schemathesis: requests made from the document, valid and not, are answered as the document says."""

import os
import subprocess
import sys
from pathlib import Path

import servers
from conftest import KEY

EXAMPLES_AN_OPERATION = 30
SEED = 1
# The document cannot say which token ids, models and combinations of fields a server has, so not all that it allows is
# taken.
NOT_OF_USE = ["positive_data_acceptance"]
# A server without keys asks for none, whatever the document says.
ABOUT_KEYS = ["ignored_auth", "missing_required_header"]


def run_schemathesis(server, left_out, capsys):
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{server.url}/openapi.json",
        *["--header", f"Authorization: Bearer {KEY}"],
        *["--phases", "examples,coverage,fuzzing"],
        *["--max-examples", str(EXAMPLES_AN_OPERATION)],
        *["--seed", str(SEED)],
        *["--suppress-health-check", "all"],
        *["--exclude-checks", ",".join(left_out)],
        *["--request-timeout", "60"],
        "--continue-on-failure",
        "--no-color",
    ]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "schema_hooks", "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    with capsys.disabled():
        print("".join(line + "\n" for line in done.stdout.splitlines() if "generated" in line), end="")


def test_the_server_does_what_the_document_says(tiny_server, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_schemathesis(tiny_server, NOT_OF_USE + ABOUT_KEYS, capsys)
    servers.wait_until(tiny_server.is_idle, "an idle server")


def test_keys_and_methods_are_as_the_document_says(locked_server, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_schemathesis(locked_server, NOT_OF_USE, capsys)
    servers.wait_until(locked_server.is_idle, "an idle server")
