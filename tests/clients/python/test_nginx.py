"""nginx before the server: a stream survives compression, buffering and a short timeout; a path may lie before it."""

import json
import time

import openai
import pytest
import requests
import servers

# Longer than nginx waits, five times over.
PREFILL_SECONDS = 15
MAX_TOKENS = 8
CONTEXT = 8192


@pytest.fixture(scope="module")
def slow_server():
    """One thread, and a sign of life every second."""
    arguments = ["--threads", "1", "--ping-interval", "1", "--no-prefix-cache"]
    with servers.taper(servers.smollm2(), *arguments) as server:
        yield server


def numbers(count):
    """About four tokens each."""
    return " ".join(str(n * 7919 % 1000) for n in range(count))


def request(prompt):
    fields = {"messages": [{"role": "user", "content": prompt}], "max_tokens": MAX_TOKENS, "temperature": 0}
    return {**fields, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}


def tokens_that_take(server, seconds):
    """A guess from a short prompt. Attention makes later tokens slower, so the guess is on the long side."""
    body = {**request(numbers(50)), "stream": False, "stream_options": None}
    timings = requests.post(f"{server.url}/v1/chat/completions", json=body, timeout=120).json()["timings"]
    return int(seconds * timings["prompt_per_second"])


class Seen:
    """What a client sees of a stream, and when."""

    def __init__(self, url, body):
        start = time.monotonic()
        options = {"json": body, "headers": {"Accept-Encoding": "gzip"}, "stream": True, "timeout": 60}
        with requests.post(f"{url}/v1/chat/completions", **options) as response:
            assert response.status_code == 200, response.text
            self.headers = response.headers
            self.arrivals = []
            for bytes_ in response.raw.stream(65536, decode_content=True):
                self.arrivals.append((time.monotonic() - start, bytes_.decode()))
        lines = "".join(text for _, text in self.arrivals).splitlines()
        self.comments = [line for line in lines if line.startswith(":")]
        self.data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        self.chunks = [json.loads(data) for data in self.data if data != "[DONE]"]

    def text(self):
        deltas = [choice["delta"] for chunk in self.chunks for choice in chunk["choices"]]
        return "".join(delta.get("content") or "" for delta in deltas)

    def timings(self):
        return next(chunk["timings"] for chunk in reversed(self.chunks) if "timings" in chunk)

    def longest_silence(self):
        times = [0.0, *(time_ for time_, _ in self.arrivals)]
        return max(later - earlier for earlier, later in zip(times, times[1:], strict=False))


def test_a_stream_outlives_the_timeout_while_the_prompt_is_run(slow_server):
    count = tokens_that_take(slow_server, 1.2 * PREFILL_SECONDS)
    with servers.nginx("stream.conf", TAPER=slow_server.url) as url:
        while True:
            seen = Seen(url, request(numbers(min(count, CONTEXT - 500) // 4)))
            prefill_seconds = seen.timings()["prompt_ms"] / 1000
            if prefill_seconds >= PREFILL_SECONDS:
                break
            assert count < CONTEXT, f"the longest prompt takes {prefill_seconds:.1f} s only"
            # The machine was busy while it was measured.
            count = int(count * max(1.3, 1.3 * PREFILL_SECONDS / prefill_seconds))
    usage = seen.chunks[-1]["usage"]
    print(f"prefill of {usage['prompt_tokens']} tokens: {prefill_seconds:.1f} s, {len(seen.comments)} comments,")
    print(f"first byte after {seen.arrivals[0][0]:.3f} s, longest silence {seen.longest_silence():.1f} s")
    assert seen.headers["content-encoding"] == "gzip", "this test is about a stream that nginx compresses"
    assert seen.arrivals[0][0] < 2
    assert len(seen.comments) >= prefill_seconds / 2
    assert seen.longest_silence() < 3
    assert seen.data[-1] == "[DONE]"
    assert usage["completion_tokens"] == MAX_TOKENS
    assert seen.text()


def test_openai_s_client_streams_through_nginx(chat_server):
    fields = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 16, "temperature": 0}
    texts = []
    with servers.nginx("stream.conf", TAPER=chat_server.url) as url:
        for address in (url, chat_server.url):
            with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
                (model,) = client.models.list()
                chunks = client.chat.completions.create(model=model.id, stream=True, **fields)
                texts.append("".join(chunk.choices[0].delta.content or "" for chunk in chunks))
    assert texts[0] == texts[1] != ""


@pytest.fixture
def below_a_path():
    """A server as `/llm` of nginx."""
    with servers.taper(servers.TINY, "--alias", "tiny", "--trusted-proxies", "127.0.0.1") as server:
        with servers.nginx("prefix.conf", TAPER=server.url) as url:
            yield f"{url}/llm"


def test_the_document_names_the_path_below_which_it_is(below_a_path):
    document = requests.get(f"{below_a_path}/openapi.json", timeout=10).json()
    assert [server["url"] for server in document["servers"]] == ["/llm"]


def test_the_swagger_page_is_below_the_path(below_a_path):
    for address in (f"{below_a_path}/docs", f"{below_a_path}/docs/"):
        page = requests.get(address, timeout=10)
        assert page.status_code == 200 and page.url == f"{below_a_path}/docs/"
        assert "swagger-ui" in page.text


def test_openai_s_client_works_below_the_path(below_a_path):
    with openai.OpenAI(base_url=f"{below_a_path}/v1", api_key="none", max_retries=0) as client:
        (model,) = client.models.list()
        assert client.models.retrieve(model.id) == model
