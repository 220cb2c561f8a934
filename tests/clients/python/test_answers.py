"""OpenAI's Python client: what it gets when all goes well."""

import asyncio

import openai

MODEL = "SmolLM2-135M-Instruct.Q4_1"
CAPITAL = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
STORY = [{"role": "user", "content": "Tell me a short story about a dragon."}]


def chat(client, messages=STORY, **fields):
    return client.chat.completions.create(**{"model": MODEL, "messages": messages, "max_tokens": 24, **fields})


def text(completion):
    return completion.choices[0].message.content


def test_a_chat_answers_the_question(client):
    completion = chat(client, CAPITAL, temperature=0)
    assert "Paris" in text(completion)
    assert (completion.object, completion.model) == ("chat.completion", MODEL)
    assert completion.choices[0].message.role == "assistant"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.system_fingerprint.startswith("taper-")


def test_usage_adds_up(client):
    usage = chat(client, max_tokens=7, temperature=0).usage
    assert usage.completion_tokens == 7
    assert usage.total_tokens == usage.prompt_tokens + 7


def test_a_stream_says_the_same_in_pieces(client):
    whole = chat(client, temperature=0)
    chunks = list(chat(client, temperature=0, stream=True))
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == text(whole)
    assert len([delta for delta in deltas if delta.content]) > 5
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == ["length"]
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.object == "chat.completion.chunk" and chunk.usage is None for chunk in chunks)


def test_a_stream_ends_with_the_usage_if_asked(client):
    chunks = list(chat(client, max_tokens=5, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 5
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_the_clients_stream_helper_collects_the_answer(client):
    with client.chat.completions.stream(model=MODEL, messages=CAPITAL, max_tokens=24, temperature=0) as stream:
        completion = stream.get_final_completion()
    assert "Paris" in text(completion)


def test_n_answers_differ(client):
    completion = chat(client, n=3, seed=1, temperature=1)
    assert [choice.index for choice in completion.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in completion.choices}) == 3
    assert completion.usage.completion_tokens > 24


def test_n_answers_come_in_one_stream(client):
    seen = {}
    for chunk in chat(client, n=2, seed=1, temperature=1, stream=True):
        for choice in chunk.choices:
            seen[choice.index] = seen.get(choice.index, "") + (choice.delta.content or "")
    assert sorted(seen) == [0, 1] and seen[0] != seen[1]


def test_a_seed_decides_the_text(client):
    texts = [text(chat(client, seed=seed, temperature=1)) for seed in (7, 7, 8)]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_a_stop_string_ends_the_text_before_it(client):
    whole = text(chat(client, temperature=0))
    word = whole.split()[5]
    stopped = chat(client, temperature=0, stop=[word])
    assert text(stopped) == whole[: whole.index(word)]
    assert stopped.choices[0].finish_reason == "stop"
    streamed = chat(client, temperature=0, stop=word, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == text(stopped)


def test_a_prompt_said_again_is_cached(client):
    messages = [{"role": "user", "content": "Remember these words: " + "apple river stone " * 40}]
    first, second = (chat(client, messages, max_tokens=1).usage for _ in range(2))
    assert first.prompt_tokens_details.cached_tokens < 64
    assert 64 <= second.prompt_tokens_details.cached_tokens < second.prompt_tokens


def test_a_text_is_continued(client):
    fields = {"model": MODEL, "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
    completion = client.completions.create(**fields)
    assert "Paris" in completion.choices[0].text
    assert completion.object == "text_completion"
    streamed = client.completions.create(**fields, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == completion.choices[0].text


def test_several_prompts_are_answered_in_their_order(client):
    prompts = ["The capital of France is", "The capital of Italy is"]
    completion = client.completions.create(model=MODEL, prompt=prompts, max_tokens=8, temperature=0, echo=True)
    assert [choice.index for choice in completion.choices] == [0, 1]
    for choice, prompt in zip(completion.choices, prompts, strict=True):
        assert choice.text.startswith(prompt)


def test_a_prompt_of_token_ids_is_continued(client):
    completion = client.completions.create(model=MODEL, prompt=[504, 3575, 282], max_tokens=4, temperature=0)
    assert completion.usage.prompt_tokens == 3


def test_the_model_is_listed_and_found(client):
    (model,) = client.models.list()
    assert (model.id, model.object) == (MODEL, "model")
    assert client.models.retrieve(MODEL) == model


def test_headers_name_what_was_ignored(client):
    response = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=CAPITAL, max_tokens=1, store=False, extra_body={"colour": "red"}
    )
    assert response.headers["content-type"].startswith("application/json")
    assert response.headers["x-ignored"] == "store, colour"
    assert response.parse().usage.completion_tokens == 1


def test_a_stream_is_not_to_be_held_back_by_proxies(client):
    with client.chat.completions.with_streaming_response.create(
        model=MODEL, messages=CAPITAL, max_tokens=1, stream=True
    ) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["cache-control"] == "no-cache, no-transform"
        assert list(response.iter_lines())[-2:] == ["data: [DONE]", ""]


def test_every_answer_has_a_request_id(client, locked_server):
    response = client.models.with_raw_response.list()
    assert response.headers["x-request-id"]


def test_sixteen_at_once_get_what_each_gets_alone(chat_server):
    questions = ["What is a dog?", "Name a colour.", "Who was Mozart?", "Count to ten."]

    async def ask(client, question):
        messages = [{"role": "user", "content": question}]
        completion = await client.chat.completions.create(
            model=MODEL, messages=messages, max_tokens=16, temperature=1, seed=5
        )
        return text(completion)

    async def all_of_them():
        url = f"{chat_server.url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=300) as client:
            alone = [await ask(client, question) for question in questions]
            together = await asyncio.gather(*(ask(client, question) for question in questions * 4))
            return alone, together

    alone, together = asyncio.run(all_of_them())
    assert len(set(alone)) == 4
    assert together == alone * 4
