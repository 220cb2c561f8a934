#!/usr/bin/env python3
"""What chat templates make of tool calls: the text that their models were trained to write.

usage: recorded.py TEMPLATES OUT     TEMPLATES is llama.cpp's models/templates, OUT is tests/fixtures/recorded

Needs jinja2. The templates belong to their authors and are not kept. Of each rendering the answer is kept: what comes
between HEAD, the beginning of the model's turn, and TAIL, its end. What the pieces must be is known from the conversation.
"""
import datetime
import json
import re
import sys
from pathlib import Path

from jinja2.ext import loopcontrols
from jinja2.sandbox import SandboxedEnvironment

TOOLS = [
    dict(name="get_weather", description="The weather", parameters=dict(type="object", required=["city"], properties=dict(
        city=dict(type="string"), days=dict(type="integer"), exact=dict(type="boolean"), factor=dict(type="number"),
        at=dict(type="array"), options=dict(type="object")))),
    dict(name="noop", description="Nothing", parameters=dict(type="object", properties={})),
]
PLAIN = dict(city="Paris", days=2)
HARD = dict(city='Zürich "N"\n</b> 007 🦀', days=-3, exact=True, factor=1.5, at=[1, "a", [True]], options={"k": {"x": "y z"}})
NUMBER = dict(city="12345", exact=False)
CASES = {
    "one call": dict(calls=[("get_weather", PLAIN)]),
    "hard arguments": dict(calls=[("get_weather", HARD)]),
    "text that looks like a number": dict(calls=[("get_weather", NUMBER)]),
    "no arguments": dict(calls=[("noop", {})]),
    "text before a call": dict(content="Let me see.", calls=[("get_weather", PLAIN)]),
    "two calls": dict(calls=[("get_weather", PLAIN), ("noop", {})]),
    "thoughts and a call": dict(thoughts="Rain?\n\nMaybe.", calls=[("get_weather", PLAIN)]),
    "text": dict(content="It is *fine*.\n\nBye"),
}
IM = "<|im_start|>assistant\n"
END = "<|im_end|>"
BOX = r"(?:<think>\n*</think>\n*)?"
CALLING = set(CASES) - {"thoughts and a call"}
SINGLE = CALLING - {"two calls"}

# Of each template: the format, HEAD and TAIL as regular expressions, and the cases that it can show.
TEMPLATES = {
    "Qwen-Qwen2.5-7B-Instruct": ("hermes", re.escape(IM), re.escape(END), CALLING),
    "Qwen-Qwen3-0.6B": ("hermes", re.escape(IM) + BOX, re.escape(END), set(CASES)),
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": ("hermes", re.escape(IM), re.escape(END), CALLING - {"text before a call"}),
    "Bielik-11B-v3.0-Instruct": ("hermes", re.escape(IM), re.escape(END), set(CASES)),
    "Reka-Edge": ("hermes", "assistant: ", re.escape("\n\n<sep>"), CALLING),
}


def environment():
    env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = lambda value, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["strftime_now"] = lambda pattern: datetime.datetime(2025, 1, 1).strftime(pattern)

    def raise_exception(message):
        raise ValueError(message)
    env.globals["raise_exception"] = raise_exception
    return env


def message(case, as_text):
    calls = [dict(id=f"abcdef12{at}", type="function", function=dict(
        name=name, arguments=json.dumps(given, ensure_ascii=False) if as_text else given))
        for at, (name, given) in enumerate(case.get("calls", []))]
    thoughts = {key: case["thoughts"] for key in ("reasoning_content", "reasoning", "thinking") if "thoughts" in case}
    return dict(role="assistant", content=case.get("content", ""), **thoughts, **(dict(tool_calls=calls) if calls else {}))


def answer(source, case, head, tail):
    """The model's text, or nothing if the template cannot show the case."""
    template = environment().from_string(re.sub(r"{%-?\s*(?:end)?generation\s*-?%}", "", source))
    functions = [dict(type="function", function=tool) for tool in TOOLS]
    given = dict(tools=functions, bos_token="", eos_token="<EOS>", add_generation_prompt=False, functions=functions, datetime="")
    user = dict(role="user", content="Q?")
    for as_text in (False, True):
        try:
            whole = template.render(messages=[user, message(case, as_text)], **given)
        except Exception as error:
            print(f"    {error!r:.100}", file=sys.stderr)
            continue
        turns = re.findall(f"(?s).*{head}(.*?){tail}\\s*$", whole)
        if turns:
            return turns[-1]
    return None


def pieces(case, ids):
    found = [dict(reasoning=case["thoughts"])] if "thoughts" in case else []
    found += [dict(text=case["content"])] if "content" in case else []
    for at, (name, arguments) in enumerate(case.get("calls", [])):
        found.append(dict(call=name, id=ids(name, at), arguments=arguments))
    return found


IDS = {}


def main(templates, out):
    for name, (format, head, tail, cases) in TEMPLATES.items():
        source = (Path(templates) / f"{name}.jinja").read_text()
        lines = []
        for case in (case for case in CASES if case in cases):
            text = answer(source, CASES[case], head, tail)
            if text is None:
                print(f"{name} cannot show: {case}", file=sys.stderr)
                continue
            expected = pieces(CASES[case], IDS.get(name, lambda name, at: None))
            lines.append(json.dumps(dict(case=case, input=text, pieces=expected), ensure_ascii=False))
        body = ",\n".join(lines)
        (Path(out) / f"{name}.json").write_text(f'{{"format":"{format}","cases":[\n{body}\n]}}\n')
    (Path(out) / "tools.json").write_text(json.dumps(TOOLS, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
