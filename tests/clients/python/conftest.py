"""Servers that several tests share."""

import openai
import pytest
import requests
import servers

KEY = "a-key-of-the-tests"


@pytest.fixture(scope="session")
def chat_server():
    """SmolLM2, where the text matters."""
    with servers.taper(servers.smollm2(), "--ctx-size", "4096") as server:
        yield server


@pytest.fixture(scope="session")
def tiny_server():
    """A model that says nothing of worth, at once."""
    with servers.taper(servers.TINY, "--alias", "tiny", "--predict", "8") as server:
        yield server


@pytest.fixture
def narrow_server():
    """One request runs, one waits, and no third is taken."""
    with servers.taper(servers.smollm2(), "--ctx-size", "4096", "-np", "1", "--queue-limit", "1") as server:
        yield server


@pytest.fixture(scope="session")
def locked_server():
    """Asks for a key."""
    with servers.taper(servers.TINY, "--alias", "tiny", "--predict", "8", key=KEY) as server:
        assert requests.get(f"{server.url}/v1/models", timeout=10).status_code == 401
        yield server


@pytest.fixture
def client(chat_server):
    with openai.OpenAI(base_url=f"{chat_server.url}/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client
