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

ALL = set(CASES)
TEXTLESS = CALLING - {"text before a call"}
THOUGHTFUL = ALL - {"text before a call"}
# Whose templates write arguments of one call only.
LLAMA = {"one call", "hard arguments", "text that looks like a number", "no arguments", "text"}
CONTENTLESS = THOUGHTFUL - {"text"}


def turn(format, head, tail, cases=CALLING, thinking=False, ids=lambda name, at: None):
    return dict(format=format, head=head, tail=tail, cases=cases, thinking=thinking, ids=ids)


def own(name, at):
    return f"abcdef12{at}"


def kimi(name, at):
    return f"functions.{name}:{at}"


def im(format, cases=CALLING, box="", thinking=False):
    return turn(format, re.escape(IM) + box, re.escape(END), cases, thinking)


# Of each template: the format, HEAD and TAIL as regular expressions, the cases that it can show, whether the prompt opens
# thoughts (HEAD holds the tag), and the identifiers that it writes.
TEMPLATES = {
    "Apertus-8B-Instruct": turn("apertus", re.escape("<|assistant_start|>"), r"(?:<\|assistant_end\|>)?"),
    "Apriel-1.6-15b-Thinker-fixed": turn("apriel", r"<\|begin_assistant\|>\n", r"\n(?:<\|end\|>)?\s*|$"),
    "Bielik-11B-v3.0-Instruct": im("hermes", ALL),
    "ByteDance-Seed-OSS": turn("seed_oss", "<seed:bos>assistant\n", "<seed:eos>", ALL),
    "Cohere2MoE": turn("cohere_command3", re.escape("<|CHATBOT_TOKEN|>"), re.escape("<|END_OF_TURN_TOKEN|>"), THOUGHTFUL),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": turn(
        "cohere_command3", r"<\|CHATBOT_TOKEN\|><\|START_THINKING\|>", re.escape(
            "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|><|END_THINKING|>"), {
                "thoughts and a call"}, thinking=True),
    "GLM-4.6": turn("glm45", r"<\|assistant\|>\n(?:<think></think>\n)?", "", ALL),
    "GLM-4.7-Flash": turn("glm47", r"<\|assistant\|>(?:<think>)?", "", ALL, thinking=True),
    "GigaChat3-10B-A1.8B": turn("gigachat3", r"assistant<\|role_sep\|>\n", r"<\|message_sep\|>", CALLING - {"two calls"}),
    "GigaChat3.1-10B-A1.8B": turn("gigachat31", r"assistant<\|role_sep\|>\n", r"<\|message_sep\|>", CALLING - {"two calls"}),
    "Kimi-K2-Instruct": turn("kimi_k2", r"<\|im_middle\|>", r"<\|im_end\|>", ids=kimi),
    "Kimi-K2-Thinking": turn("kimi_k2", r"<\|im_middle\|>", r"<\|im_end\|>", ALL, ids=kimi),
    "Kimi-K3": turn("kimi_k3", r'<\|open\|>message role="assistant"<\|sep\|>', r"<\|close\|>message<\|sep\|><\|end_of_msg\|>", ALL),
    "LFM2.5-8B-A1B": im("lfm2", ALL),
    "MiMo-VL": im("hermes"),
    "MiniMax-M1": turn("minimax", "ai name=assistant\n", "<end_of_sentence>", TEXTLESS),
    "MiniMax-M2": turn("minimax_m2", r"\]~b\]ai\n", r"\[e~\[", ALL),
    "Mistral-Small-3.2-24B-Instruct-2506": turn("mistral", r"\[/INST\]", "<EOS>", TEXTLESS, ids=own),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": im("qwen3_xml", ALL, "<think>", thinking=True),
    "NVIDIA-Nemotron-Nano-v2": turn("nemotron_v2", "<SPECIAL_11>Assistant\n(?:<think></think>)?", r"\n?<SPECIAL_12>", TEXTLESS - {"text"}),
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": im("hermes", TEXTLESS),
    "Qwen-Qwen2.5-7B-Instruct": im("hermes"),
    "Qwen-Qwen3-0.6B": im("hermes", ALL, BOX),
    "Qwen3-Coder": im("qwen3_xml"),
    "Qwen3.5-4B": im("qwen3_xml", ALL, "<think>\n", thinking=True),
    "Reka-Edge": turn("hermes", "assistant: ", re.escape("\n\n<sep>")),
    "Spark2.5": turn("glm47", r"<\|Bot\|>(?:<think>)?", "<｜end▁of▁sentence｜>", ALL, thinking=True),
    "StepFun3.5-Flash": im("qwen3_xml", ALL, "<think>\n", thinking=True),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": turn(
        "deepseek_v3", "<｜Assistant｜>(?=<｜tool)", r"<｜end▁of▁sentence｜>(?:<｜Assistant｜><｜end▁of▁sentence｜>)?", TEXTLESS - {"text"}),
    "deepseek-ai-DeepSeek-V3.1": turn("deepseek_v31", "<｜Assistant｜>(?:<think></think>)?", "<｜end▁of▁sentence｜>"),
    "deepseek-ai-DeepSeek-V3.2": turn("deepseek_v32", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
    "deepseek-ai-DeepSeek-V4": turn("deepseek_v4", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
    "google-gemma-4-31B-it-interleaved": turn("gemma4", r"<\|turn>model\n", r"<turn\|>", CONTENTLESS),
    "google-gemma-4-31B-it": turn("gemma4", r"<\|turn>model\n", r"(?:<\|tool_response>|<turn\|>)", THOUGHTFUL),
    "ibm-granite-granite-4.0": turn("granite4", r"<\|end_of_role\|>", r"<\|end_of_text\|>"),
    "inclusionai-ling-3.0-flash": turn("ling3", "<role>ASSISTANT</role>\n(?:<think></think>)?", r"<\|role_end\|>", ALL),
    "meetkai-functionary-medium-v3.1": turn(
        "functionary_v31", r"assistant<\|end_header_id\|>\n\n", r"<\|eo[mt]_id\|>"),
    "meta-llama-Llama-3.1-8B-Instruct": turn("llama3_json", r"assistant<\|end_header_id\|>\n\n", r"<\|eot_id\|>", LLAMA),
    "mistralai-Ministral-3-14B-Reasoning-2512": turn("mistral", r"\[/INST\]", "<EOS>"),
    "mistralai-Mistral-Nemo-Instruct-2407": turn("mistral_list", r"\[/INST\]", "<EOS>", TEXTLESS),
    "moonshotai-Kimi-K2": turn("kimi_k2", r"assistant<\|im_middle\|>", r"<\|im_end\|>", ids=kimi),
    "openai-gpt-oss-120b": turn("openai", r"Q\?<\|end\|><\|start\|>assistant", r"(?:<\|call\|>|<\|return\|>)", CONTENTLESS - {"two calls"} | {"text"}),
    "openbmb-MiniCPM5-1B": im("minicpm5", ALL),
    "poolside-Laguna-S-2.1": turn("glm47", "<assistant>(?:<think></think>)?", "</assistant>", ALL),
    "poolside-Laguna-XS.2": turn("glm45", "<assistant>\n(?:</think>\n)?", "\n</assistant>", ALL),
    "tencent-Hy3": turn("hy3", r"<｜hy_Assistant:opensource｜>", "<｜hy_eos:opensource｜>", ALL - {"text"}),
    "unsloth-mistral-Devstral-Small-2507": turn("mistral", r"\[/INST\]", "<EOS>"),
    "upstage-Solar-Open-100B": turn("solar_open", r"Q\?<\|end\|><\|begin\|>assistant", r"(?:<\|calls\|>|<\|end\|>)", THOUGHTFUL, ids=own),
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
        turns = re.findall(f"(?s).*{head}(.*?)(?:{tail})\\s*$", whole)
        if turns:
            return turns[-1]
    return None


def pieces(case, ids):
    found = [dict(reasoning=case["thoughts"])] if "thoughts" in case else []
    found += [dict(text=case["content"])] if "content" in case else []
    for at, (name, arguments) in enumerate(case.get("calls", [])):
        found.append(dict(call=name, id=ids(name, at), arguments=arguments))
    return found


def recorded(source, name, case):
    given = TEMPLATES[name]
    text = answer(source, CASES[case], given["head"], given["tail"])
    if text is None:
        return print(f"{name} cannot show: {case}", file=sys.stderr)
    expected = pieces(CASES[case], given["ids"])
    more = dict(in_thoughts=True) if given["thinking"] else {}
    return json.dumps(dict(case=case, input=text, **more, pieces=expected), ensure_ascii=False)


def main(templates, out):
    for name, given in TEMPLATES.items():
        source = (Path(templates) / f"{name}.jinja").read_text()
        lines = [recorded(source, name, case) for case in CASES if case in given["cases"]]
        body = ",\n".join(line for line in lines if line)
        (Path(out) / f"{name}.json").write_text(f'{{"format":"{given["format"]}","cases":[\n{body}\n]}}\n')
    (Path(out) / "tools.json").write_text(json.dumps(TOOLS, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
