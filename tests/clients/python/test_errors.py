"""OpenAI's Python client: each refusal arrives as the exception that belongs to it."""

import itertools
import threading
import time

import openai
import pytest
import servers
from conftest import KEY

MESSAGES = [{"role": "user", "content": "Hello"}]


def chat(client, **fields):
    return client.chat.completions.create(**{"model": "tiny", "messages": MESSAGES, "max_tokens": 4, **fields})


def connect(server, **options):
    options = {"api_key": "none", "max_retries": 0, "timeout": 120, **options}
    return openai.OpenAI(base_url=f"{server.url}/v1", **options)


@pytest.fixture
def tiny(tiny_server):
    with connect(tiny_server) as client:
        yield client


def refusal(client, exception, **fields):
    with pytest.raises(exception) as caught:
        chat(client, **fields)
    return caught.value


def test_a_value_outside_its_range(tiny):
    error = refusal(tiny, openai.BadRequestError, temperature=5)
    assert (error.param, error.code, error.type) == ("temperature", "invalid_value", "invalid_request_error")
    assert "5" in error.message and "from 0 to 2" in error.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_p": 0}, "top_p"),
        ({"n": 129}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "Hello"}]}, "messages[0].role"),
        ({"logit_bias": {"99999999": 1}}, "logit_bias"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"tools": [{"type": "function", "function": {"name": "no spaces"}}]}, "tools[0].function.name"),
    ],
)
def test_the_field_is_named(tiny, fields, param):
    assert refusal(tiny, openai.BadRequestError, **fields).param == param


def test_a_model_that_is_not_here(tiny):
    assert refusal(tiny, openai.NotFoundError, model="gpt-4o").code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        tiny.models.retrieve("gpt-4o")


def test_a_route_that_is_not_here(tiny):
    with pytest.raises(openai.NotFoundError):
        tiny.embeddings.create(model="tiny", input="Hello")


def test_a_route_that_is_not_here_is_told_in_json(locked_server):
    with connect(locked_server, api_key=KEY) as client, pytest.raises(openai.NotFoundError) as caught:
        client.embeddings.create(model="tiny", input="Hello")
    assert caught.value.code == "not_found"


def test_a_prompt_that_does_not_fit(tiny):
    long = [{"role": "user", "content": "word " * 500}]
    error = refusal(tiny, openai.BadRequestError, messages=long)
    assert error.code == "context_length_exceeded"
    assert "256" in error.message


@pytest.mark.parametrize("key", ["wrong", KEY + "x"])
def test_a_wrong_key(locked_server, key):
    with connect(locked_server, api_key=key) as client:
        assert refusal(client, openai.AuthenticationError).code == "invalid_api_key"


def test_the_right_key(locked_server):
    with connect(locked_server, api_key=KEY) as client:
        assert chat(client).usage.completion_tokens > 0


def test_no_server():
    with servers.taper(servers.TINY) as server:
        pass
    with connect(server) as client:
        refusal(client, openai.APIConnectionError)


def endless(client):
    """A stream that will not end by itself within the test."""
    stream = client.chat.completions.create(
        model=servers.SMOLLM2_FILE.removesuffix(".gguf"),
        messages=MESSAGES,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    next(iter(stream))
    return stream


def fill(client):
    """Streams until no more are taken, and the refusal."""
    streams = []
    while True:
        try:
            streams.append(endless(client))
        except openai.RateLimitError as error:
            return streams, error


def test_a_full_queue(narrow_server):
    with connect(narrow_server) as client:
        streams, error = fill(client)
        assert 1 <= len(streams) <= 2
        assert error.code == "rate_limit_exceeded"
        assert 1 <= int(error.response.headers["retry-after"]) <= 60
        for stream in streams:
            stream.close()


def test_a_full_queue_is_tried_again_after_the_time_it_named(narrow_server):
    seen = []

    def note(response):
        seen.append((time.monotonic(), response.status_code, int(response.headers.get("retry-after", 0))))

    with connect(narrow_server) as holder:
        streams, _ = fill(holder)
        http = openai.DefaultHttpxClient(event_hooks={"response": [note]})
        with connect(narrow_server, max_retries=10, http_client=http) as client:
            model = servers.SMOLLM2_FILE.removesuffix(".gguf")
            answers = []
            asking = threading.Thread(target=lambda: answers.append(chat(client, model=model)))
            asking.start()
            servers.wait_until(lambda: seen, "a refusal")
            for stream in streams:
                stream.close()
            asking.join()
    assert answers[0].usage.completion_tokens > 0
    # The step that was under way goes on for a moment, so a second refusal may come.
    assert [status for _, status, _ in seen] == [429] * (len(seen) - 1) + [200]
    for (refused, _, retry_after), (again, _, _) in itertools.pairwise(seen):
        assert again - refused >= retry_after >= 1


def test_a_client_that_closes_its_stream_frees_the_blocks(chat_server):
    with connect(chat_server) as client:
        stream = endless(client)
        servers.wait_until(chat_server.has_running, "a running request")
        stream.close()
        servers.wait_until(chat_server.is_idle, "an idle server")


def test_a_client_that_gives_up_on_a_whole_answer_frees_the_blocks(chat_server):
    model = servers.SMOLLM2_FILE.removesuffix(".gguf")
    with connect(chat_server, timeout=2) as client:
        with pytest.raises(openai.APITimeoutError):
            chat(client, model=model, max_tokens=4000, extra_body={"ignore_eos": True})
        servers.wait_until(chat_server.is_idle, "an idle server")
