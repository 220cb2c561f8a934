"""Answers that must follow a schema, judged by a library of its own for JSON schemas, and through OpenAI's own helpers."""

import json
from typing import Literal

import jsonschema_rs
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

# The vocabulary of the tiny model has few characters beyond ASCII.
NAMES = st.sampled_from(["a", "name", "grün", "a b", 'with "quotes"', "x/y", ""])


def objects(inner):
    def build(properties, optional):
        required = [name for index, name in enumerate(properties) if index != optional]
        # Open objects of a random model would go on for long.
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    return st.builds(build, st.dictionaries(NAMES, inner, max_size=3), st.integers(0, 3))


def arrays(inner):
    return st.builds(
        lambda items, least, more: {"type": "array", "items": items, "minItems": least, "maxItems": least + more},
        inner,
        st.integers(0, 2),
        st.integers(0, 2),
    )


LEAVES = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.builds(
        lambda low, span: {"type": "integer", "minimum": low, "maximum": low + span},
        st.integers(-120, 120),
        st.integers(0, 300),
    ),
    st.builds(
        lambda least, more: {"type": "string", "minLength": least, "maxLength": least + more},
        st.integers(0, 3),
        st.integers(0, 5),
    ),
    st.sampled_from([{"type": "string", "format": "date"}, {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$", "maxLength": 5}]),
    st.lists(st.sampled_from(["x", 'y"', "ü", 1, -2.5, True, None]), min_size=1, max_size=4, unique_by=json.dumps).map(
        lambda values: {"enum": values}
    ),
    st.just({"const": {"k": [1, "v"]}}),
)
UNIONS = st.lists(
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": "string", "maxLength": 4}, {"enum": [7, 8]}]),
    min_size=1,
    max_size=3,
    unique_by=json.dumps,
).map(lambda kinds: {"anyOf": kinds})
SCHEMAS = objects(st.recursive(LEAVES | UNIONS, lambda inner: objects(inner) | arrays(inner), max_leaves=5))


@given(schema=SCHEMAS, seed=st.integers(0, 1 << 30))
@settings(
    max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
def test_a_model_that_babbles_follows_any_schema(tiny_server, schema, seed):
    with openai.OpenAI(base_url=f"{tiny_server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        answer = client.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "json"}],
            response_format={"type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": schema}},
            max_tokens=200,
            seed=seed,
        )
    (choice,) = answer.choices
    # A prompt of ours and 200 tokens fit the tiny model; its context, not the schema, ends what is longer.
    if choice.finish_reason == "stop":
        jsonschema_rs.validate(schema, json.loads(choice.message.content))
    else:
        assert choice.finish_reason == "length"


class Step(BaseModel):
    explanation: str = Field(max_length=80)
    done: bool


class Plan(BaseModel):
    title: str = Field(max_length=40)
    priority: Literal["low", "high"]
    steps: list[Step] = Field(min_length=1, max_length=2)


def test_openai_s_parse_helper_gets_its_model(client):
    completion = client.chat.completions.parse(
        model="SmolLM2-135M-Instruct.Q4_1",
        messages=[{"role": "user", "content": "Plan a short walk in the park."}],
        response_format=Plan,
        temperature=0,
        max_tokens=300,
    )
    plan = completion.choices[0].message.parsed
    assert plan.title and plan.priority in ("low", "high") and 1 <= len(plan.steps) <= 2


def test_openai_s_stream_helper_gets_its_model(client):
    with client.chat.completions.stream(
        model="SmolLM2-135M-Instruct.Q4_1",
        messages=[{"role": "user", "content": "Plan a short walk in the park."}],
        response_format=Plan,
        temperature=0,
        max_tokens=300,
    ) as stream:
        for _ in stream:
            pass
        plan = stream.get_final_completion().choices[0].message.parsed
    assert isinstance(plan, Plan)


def test_an_unsupported_keyword_is_a_bad_request_that_points_to_it(client):
    schema = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True, "contains": {"const": 1}}}}
    with pytest.raises(openai.BadRequestError, match="/properties/x"):
        client.chat.completions.create(
            model="SmolLM2-135M-Instruct.Q4_1",
            messages=[{"role": "user", "content": "hello"}],
            response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": schema}},
        )
