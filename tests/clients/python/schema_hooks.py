"""What schemathesis has to know of this API; it loads this file by SCHEMATHESIS_HOOKS."""

import json

import schemathesis

MOST_TOKENS = 8


@schemathesis.hook
def before_call(context, case, kwargs):
    """Answers end soon. Values that break a rule are left as they are."""
    if isinstance(case.body, dict):
        for name in ("max_tokens", "max_completion_tokens", "min_tokens"):
            if type(case.body.get(name)) is int and case.body[name] > MOST_TOKENS:
                case.body[name] = MOST_TOKENS


@schemathesis.hook
def filter_case(context, case):
    """`null` stands for an absent field, which the rule "exactly one of three" of this route cannot say."""
    texts = ("content", "prompt", "messages")
    is_null = isinstance(case.body, dict) and any(name in case.body and case.body[name] is None for name in texts)
    return not (case.operation.path == "/tokenize" and is_null)


@schemathesis.deserializer("text/event-stream")
def events(context, response):
    """The chunks of a stream, for comparison with their schema; the mark of its end is none."""
    data = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    return [json.loads(chunk) for chunk in data[:-1]]
