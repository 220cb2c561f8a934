"""OpenAI's Node client: the tests of `node/openai.test.mjs`, against servers that are started here."""

import os
import re
import subprocess

import servers

NODE = servers.REPOSITORY / "tests" / "clients" / "node"


def test_openai_s_node_client(chat_server, narrow_server, locked_server, capsys):
    urls = {
        "TAPER_URL": chat_server.url,
        "TAPER_NARROW_URL": narrow_server.url,
        "TAPER_LOCKED_URL": locked_server.url,
    }
    command = ["node", "--test", "--test-reporter=tap", "openai.test.mjs"]
    done = subprocess.run(command, cwd=NODE, env={**os.environ, **urls}, capture_output=True, text=True, timeout=300)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    counts = dict(re.findall(r"^# (tests|pass|fail|skipped) (\d+)$", done.stdout, re.MULTILINE))
    assert int(counts["pass"]) > 10 and counts["skipped"] == "0"
    with capsys.disabled():
        print("node:test:", ", ".join(f"{count} {name}" for name, count in counts.items()))
    # It gave up two answers of thousands of tokens; whoever leaves frees the blocks.
    servers.wait_until(chat_server.is_idle, "an idle server")
