#!/usr/bin/env python3
"""How much a `prediction` saves: a file that is to be written again with one name changed, with and without it.

    bench/prediction.py MODEL.gguf [--taper target/release/taper] [--rounds 5]

Starts `taper serve` on the model and asks for the same greedy answer in turns: without anything, with the file as the
prediction, with the right answer itself as the prediction (the most that can be gained), and with a text that has nothing
to do with it (the most that can be lost). Answers must be equal. The medians are of the time from the first token to the
last, as the server tells it.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import urllib.request

CODE = """def area(width, height):
    if width < 0 or height < 0:
        raise ValueError("a side is negative")
    return width * height


def volume(width, height, depth):
    if depth < 0:
        raise ValueError("the depth is negative")
    return area(width, height) * depth


def describe(width, height, depth):
    return f"{width} by {height} by {depth}: {volume(width, height, depth)}"
"""
OTHER = "The quilt was blue, and so were the marbles that a zebra had left on it. " * 10
TASK = "Write this Python file again, unchanged, and nothing else:\n\n"


def post(port, body):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def wait(port, server):
    while server.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health")
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the server has ended")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--taper", default="target/release/taper")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", type=int, default=8137)
    given = parser.parse_args()
    server = subprocess.Popen([given.taper, "serve", "-m", given.model, "--port", str(given.port), "--log-level", "warn"])
    try:
        wait(given.port, server)
        compare(given)
    finally:
        server.terminate()
        server.wait()


def compare(given):
    body = {"messages": [{"role": "user", "content": TASK + CODE}], "temperature": 0, "max_tokens": 200}
    plain = post(given.port, body)["choices"][0]["message"]["content"]
    kinds = {"without": None, "the file": CODE, "the answer": plain, "another text": OTHER}
    times = {kind: [] for kind in kinds}
    counted = {}
    for _ in range(given.rounds):
        for kind, content in kinds.items():
            prediction = {"prediction": {"type": "content", "content": content}} if content else {}
            answer = post(given.port, body | prediction)
            if answer["choices"][0]["message"]["content"] != plain:
                sys.exit(f"with {kind} as the prediction, the answer is another one")
            times[kind].append(answer["timings"]["predicted_ms"])
            counted[kind] = (answer["timings"], answer["usage"])
    base = statistics.median(times["without"])
    print("| prediction | tokens | guessed | right | ms | speed |")
    print("|---|---|---|---|---|---|")
    for kind in kinds:
        timings, usage = counted[kind]
        median = statistics.median(times[kind])
        print(
            f"| {kind} | {usage['completion_tokens']} | {timings['draft_n']} | {timings['draft_n_accepted']} "
            f"| {median:.0f} | {base / median:.2f}x |"
        )


if __name__ == "__main__":
    main()
