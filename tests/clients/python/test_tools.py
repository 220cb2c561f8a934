"""Tools as applications use them: OpenAI's client, whole and streamed, and an agent framework that calls functions."""

import json

import openai
from pydantic import BaseModel, Field
from pydantic_ai import Agent, UsageLimitExceeded, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

MODEL = "SmolLM2-135M-Instruct.Q4_1"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 30}, "unit": {"enum": ["celsius", "fahrenheit"]}},
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
QUESTION = [{"role": "user", "content": "What is the weather in Paris, in celsius?"}]


def ask(client, **more):
    return client.chat.completions.create(
        model=MODEL, messages=QUESTION, tools=[WEATHER], temperature=0, max_tokens=120, **more
    )


def assert_is_a_call(call):
    assert call.function.name == "get_weather"
    arguments = json.loads(call.function.arguments)
    assert set(arguments) == {"city", "unit"} and arguments["unit"] in ("celsius", "fahrenheit")
    return arguments


def test_a_required_call_knows_what_was_asked(client):
    choice = ask(client, tool_choice="required", parallel_tool_calls=False).choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    (call,) = choice.message.tool_calls
    assert "Paris" in assert_is_a_call(call)["city"]


def test_the_result_of_a_call_is_told_and_answered(client):
    choice = ask(client, tool_choice="required", parallel_tool_calls=False).choices[0]
    (call,) = choice.message.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": json.dumps({"degrees": 21, "sky": "clear"})}
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[*QUESTION, choice.message.model_dump(exclude_none=True), result],
        temperature=0,
        max_tokens=60,
    )
    assert answer.choices[0].message.content.strip()


def test_the_stream_helper_puts_the_call_together(client):
    with client.chat.completions.stream(
        model=MODEL,
        messages=QUESTION,
        tools=[WEATHER],
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
        temperature=0,
        max_tokens=120,
    ) as stream:
        parts = [event.arguments_delta for event in stream if event.type == "tool_calls.function.arguments.delta"]
        (call,) = stream.get_final_completion().choices[0].message.tool_calls
    assert_is_a_call(call)
    assert "".join(parts) == call.function.arguments and len(parts) > 2


def test_a_model_that_may_choose_writes_text_or_a_call_of_the_schema(client):
    message = ask(client, tool_choice="auto").choices[0].message
    if message.tool_calls:
        for call in message.tool_calls:
            assert_is_a_call(call)
    else:
        assert message.content.strip()


class City(BaseModel):
    name: str = Field(max_length=30)
    is_capital: bool


def agent(server, **more):
    provider = OpenAIProvider(base_url=f"{server.url}/v1", api_key="none")
    return Agent(OpenAIChatModel(MODEL, provider=provider), model_settings={"temperature": 0, "max_tokens": 150}, **more)


def test_an_agent_gets_typed_output(chat_server):
    result = agent(chat_server, output_type=City).run_sync("Which city is the capital of France?")
    assert isinstance(result.output, City)


def test_an_agent_has_a_function_called_and_tells_the_model_what_it_gave(chat_server):
    asked = []

    def weather(city: str) -> str:
        """Current weather of a city."""
        asked.append(city)
        return f"It is 21 degrees in {city}."

    # With a typed answer, each answer of the model must be a call: of the function, or of what stands for the answer.
    forecaster = agent(chat_server, output_type=City, tools=[weather])
    limits = UsageLimits(request_limit=4)
    try:
        result = forecaster.run_sync("Call weather for Paris.", usage_limits=limits)
        messages = result.all_messages()
        assert isinstance(result.output, City)
    except UsageLimitExceeded:
        # So small a model may never come to an answer; it has called what it may.
        assert asked
        return
    returned = [part.content for message in messages for part in message.parts if part.part_kind == "tool-return"]
    assert [f"It is 21 degrees in {city}." for city in asked] == [text for text in returned if text.startswith("It is")]


def test_an_agent_without_tools_gets_text(chat_server):
    assert agent(chat_server).run_sync("Say hello.").output.strip()


def test_a_call_that_no_tool_answers_to_is_refused(client):
    try:
        ask(client, tool_choice={"type": "function", "function": {"name": "unknown"}})
    except openai.BadRequestError as error:
        assert error.param == "tool_choice"
    else:
        raise AssertionError("an unknown tool was accepted")
