#!/usr/bin/env python3
"""Runs Taper and llama.cpp in turn on the same model and machine, and prints medians, spreads and ratios.

Noise is the enemy. Both engines spin at barriers, so on cores that others use their numbers mean nothing: each run waits
for an idle machine, records how much CPU time others took meanwhile, and counts only if that was little. Absolute numbers
still move with the host from hour to hour; the ratio of runs made in turn does not.

What is measured, in tokens per second:
  pp512          prefill of 512 tokens
  tg128          decode of 128 tokens from an empty context
  tg128 @3900    the same behind 3900 tokens of context
  tg128 x8       8 requests at once, 54 prompt tokens and 128 new ones each: new tokens of all over wall time with prefill
  tg128 x8 dec   llama.cpp only: decode of 8 sequences without prefill (llama-batched-bench)
"""
import argparse
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

STREAM_PROMPT_TOKENS = 54
GATE_SECONDS = 0.6
GATE_SHARE = 0.08
QUIET_SHARE = 0.10
ENGINES = ('taper', 'llama.cpp')


class BenchError(Exception):
    """A run that gave no numbers; the message says which and why."""


# The machine: who else uses it.

def cpu_seconds():
    """CPU seconds all processes have used since boot."""
    ticks = [int(field) for field in Path('/proc/stat').read_text().splitlines()[0].split()[1:9]]
    idle, iowait = ticks[3], ticks[4]
    return (sum(ticks) - idle - iowait) / os.sysconf('SC_CLK_TCK')


def wait_for_idle(patience):
    """Waits until others use little of the machine; False when `patience` seconds passed first."""
    deadline = time.monotonic() + patience
    while True:
        before = cpu_seconds()
        time.sleep(GATE_SECONDS)
        if (cpu_seconds() - before) / (GATE_SECONDS * os.cpu_count()) < GATE_SHARE:
            return True
        if time.monotonic() > deadline:
            return False


class Process:
    """A child process with what it cost: own CPU time, peak memory, and the share of the machine others had."""

    def __init__(self, command, stdout=subprocess.PIPE):
        self.command = [str(word) for word in command]
        self.stderr = tempfile.TemporaryFile()
        self.started, self.busy = time.monotonic(), cpu_seconds()
        self.child = subprocess.Popen(self.command, stdout=stdout, stderr=self.stderr, text=True)

    def finish(self):
        """Waits for the end; returns the standard output, if it was piped."""
        output = self.child.stdout.read() if self.child.stdout else ''
        _, status, usage = os.wait4(self.child.pid, 0)
        self.child.returncode = os.waitstatus_to_exitcode(status)
        own = usage.ru_utime + usage.ru_stime
        wall = time.monotonic() - self.started
        self.others = max(0.0, cpu_seconds() - self.busy - own) / (wall * os.cpu_count())
        self.peak_rss_bytes = usage.ru_maxrss * 1024
        return output

    def has_ended(self):
        """Whether the child is gone, without taking its status from `finish`."""
        return os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def complaint(self, what):
        self.stderr.seek(0)
        last_lines = self.stderr.read().decode(errors='replace').strip().splitlines()[-5:]
        return f"{' '.join(self.command)} {what}: " + ' / '.join(last_lines)


def run(command):
    """(standard output, process) of a command that has to succeed."""
    process = Process(command)
    output = process.finish()
    if process.child.returncode != 0:
        raise BenchError(process.complaint(f'ended with status {process.child.returncode}'))
    return output, process


def parse_json(output, command):
    try:
        return json.loads(output)
    except json.JSONDecodeError as error:
        raise BenchError(f'{command} printed no JSON ({error}): {output[:200]!r}') from error


# The engines. An engine is a list of runs; each returns ({test: [tokens per second]}, what it cost).

def label(test, depth=0, streams=1):
    return test + (f' @{depth}' if depth else '') + (f' x{streams}' if streams > 1 else '')


def cost(process, **more):
    return dict(others=round(process.others, 3), peak_rss_bytes=process.peak_rss_bytes, **more)


def taper_runs(args, model):
    return [lambda: taper_bench(args, model)]


def llama_runs(args, model):
    deep = [depth for depth in args.depths if depth]
    runs = [lambda: llama_bench(args, model, args.prompt, 0)]
    runs += [lambda depth=depth: llama_bench(args, model, 0, depth) for depth in deep]
    runs += [lambda: llama_server(args, model)]
    if (args.llama / 'llama-batched-bench').exists():
        runs += [lambda: llama_batched(args, model)]
    return runs


RUNS = {'taper': taper_runs, 'llama.cpp': llama_runs}


def taper_bench(args, model):
    output, process = run([args.taper, 'bench', '-m', model, '-t', args.threads, '-p', args.prompt, '-n', args.generate,
                           '-d', ','.join(map(str, args.depths)), '--streams', f'1,{args.streams}', '-r', args.repeats,
                           '--json'])
    report = parse_json(output, 'taper bench')
    samples = {label(r['test'], r.get('depth', 0), r.get('streams', 1)): r['tokens_per_second'] for r in report['results']}
    own = {key: report[key] for key in ('peak_rss_bytes', 'load_seconds') if report.get(key) is not None}
    return samples, cost(process) | own


def llama_bench(args, model, prompt, depth):
    output, process = run([args.llama / 'llama-bench', '-m', model, '-t', args.threads, '-p', prompt, '-n', args.generate,
                           '-d', depth, '-fa', args.flash_attention, '-r', args.repeats, '-o', 'json'])
    samples = {}
    for row in parse_json(output, 'llama-bench'):
        test = f"pp{row['n_prompt']}" if row['n_prompt'] else f"tg{row['n_gen']}"
        samples[label(test, row['n_depth'])] = row['samples_ts']
    return samples, cost(process)


def llama_batched(args, model):
    tokens = args.streams * (STREAM_PROMPT_TOKENS + args.generate)
    output, process = run([args.llama / 'llama-batched-bench', '-m', model, '-t', args.threads, '-tb', args.threads,
                           '-c', tokens, '-fa', args.flash_attention, '-npp', STREAM_PROMPT_TOKENS, '-ntg', args.generate,
                           '-npl', args.streams, '--output-format', 'jsonl'])
    rows = [json.loads(line) for line in output.splitlines() if line.startswith('{')]
    return {label(f'tg{args.generate}', streams=args.streams) + ' dec': [row['speed_tg'] for row in rows]}, cost(process)


def llama_server(args, model):
    port = free_port()
    context = args.streams * 2 * (STREAM_PROMPT_TOKENS + args.generate)
    process = Process([args.llama / 'llama-server', '-m', model, '-t', args.threads, '-tb', args.threads,
                       '-np', args.streams, '-c', context, '-fa', args.flash_attention, '--host', '127.0.0.1',
                       '--port', port], stdout=subprocess.DEVNULL)
    url = f'http://127.0.0.1:{port}'
    try:
        wait_until_healthy(process, url)
        load_seconds = time.monotonic() - process.started
        complete(url, args.streams, 16)
        speeds = [streams_at_once(url, args.streams, args.generate) for _ in range(args.repeats)]
    finally:
        process.child.terminate()
        process.finish()
    return {label(f'tg{args.generate}', streams=args.streams): speeds}, cost(process, load_seconds=round(load_seconds, 3))


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def wait_until_healthy(process, url):
    for _ in range(600):
        try:
            urllib.request.urlopen(url + '/health', timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
        if process.has_ended():
            break
    raise BenchError(process.complaint('is not healthy after 30 s'))


def complete(url, seed, new_tokens):
    """One request with its own random prompt, so that nothing is shared; returns the number of new tokens."""
    prompt = [random.Random(seed).randrange(100, 10000) for _ in range(STREAM_PROMPT_TOKENS)]
    body = dict(prompt=prompt, n_predict=new_tokens, ignore_eos=True, cache_prompt=False, temperature=0.0)
    request = urllib.request.Request(url + '/completion', json.dumps(body).encode(), {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response)['tokens_predicted']


def streams_at_once(url, streams, new_tokens):
    counts = []
    clients = [threading.Thread(target=lambda seed=seed: counts.append(complete(url, seed, new_tokens)))
               for seed in range(streams)]
    started = time.monotonic()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    if len(counts) < streams:
        raise BenchError(f'llama-server answered {len(counts)} of {streams} requests')
    return sum(counts) / (time.monotonic() - started)


# Rounds and results.

def measure_rounds(args, model, engines):
    """One record for each run: what it measured, what it cost, whether the machine was quiet."""
    records = []
    for round_number in range(args.rounds):
        for engine in engines if round_number % 2 == 0 else engines[::-1]:
            for one_run in RUNS[engine](args, model):
                idle = wait_for_idle(args.patience)
                samples, costs = one_run()
                quiet = costs['others'] < QUIET_SHARE
                records.append(dict(engine=engine, round=round_number, idle_before=idle, quiet=quiet, samples=samples, **costs))
                shown = ', '.join(f'{test} {statistics.median(values):.1f}' for test, values in samples.items())
                print(f"  round {round_number + 1}, {engine}: {shown}  (others used {costs['others']:.0%})", flush=True)
    return records


def summarise(records, engine, test):
    """Median and spread over the quiet runs; over all of them, marked noisy, if none was quiet."""
    runs = [r for r in records if r['engine'] == engine and test in r['samples']]
    if not runs:
        return None
    quiet = [r for r in runs if r['quiet']]
    values = [value for r in quiet or runs for value in r['samples'][test]]
    median = statistics.median(values)
    return dict(median=median, spread=(max(values) - min(values)) / median, samples=len(values), noisy=not quiet)


def compare(records):
    """One row for each test: both engines' summaries and their ratio."""
    tests = dict.fromkeys(test for record in records for test in record['samples'])
    rows = []
    for test in tests:
        both = {engine: summarise(records, engine, test) for engine in ENGINES}
        ratio = both['taper']['median'] / both['llama.cpp']['median'] if all(both.values()) else None
        rows.append(dict(test=test, ratio=ratio, **both))
    return rows


def costs_of(records, engine):
    mine = [r for r in records if r['engine'] == engine]
    loads = [r['load_seconds'] for r in mine if 'load_seconds' in r]
    return dict(peak_rss_bytes=max((r['peak_rss_bytes'] for r in mine), default=None),
                load_seconds=statistics.median(loads) if loads else None)


def cell(summary):
    if summary is None:
        return '-'
    return f"{summary['median']:.1f} ±{summary['spread'] / 2:.0%}{' noisy' if summary['noisy'] else ''}"


def print_table(model, rows, costs):
    print(f"\n{model.name}\n{'':16}{'taper':>20}{'llama.cpp':>20}{'ratio':>8}")
    for row in rows:
        ratio = f"{row['ratio']:.3f}" if row['ratio'] else '-'
        print(f"{row['test']:16}{cell(row['taper']):>20}{cell(row['llama.cpp']):>20}{ratio:>8}")
    for key, title, scale in (('peak_rss_bytes', 'peak MiB', 2**20), ('load_seconds', 'load s', 1)):
        values = [costs[engine][key] for engine in ENGINES]
        print(f'{title:16}' + ''.join(f"{value / scale:20.2f}" if value is not None else f"{'-':>20}" for value in values))


# Command line.

def available(args):
    """The engines that can run; says what is missing and where it was looked for."""
    missing = {}
    if not args.taper:
        missing['taper'] = 'no taper binary: build it with `cargo build --release`, or give --taper PATH'
    tools = [name for name in ('llama-bench', 'llama-server') if not (args.llama / name).exists()]
    if tools:
        missing['llama.cpp'] = f"{' and '.join(tools)} not in {args.llama}: see bench/README.md, or give --llama DIRECTORY"
    for engine, message in missing.items():
        print(f'{engine} is left out: {message}', file=sys.stderr)
    return [engine for engine in ENGINES if engine not in missing and args.only in (None, engine)]


def find_taper():
    built = Path(__file__).resolve().parent.parent / 'target/release/taper'
    return built if built.exists() else shutil.which('taper')


def find_llama():
    on_path = shutil.which('llama-bench')
    return Path(os.environ.get('LLAMA_CPP_BIN') or (Path(on_path).parent if on_path else 'llama.cpp/build/bin'))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('-m', '--model', type=Path, action='append', required=True, help='GGUF file; may be repeated')
    parser.add_argument('--taper', type=Path, default=find_taper(), help='the taper binary')
    parser.add_argument('--llama', type=Path, default=find_llama(), help="folder with llama.cpp's programs ($LLAMA_CPP_BIN)")
    parser.add_argument('--only', choices=ENGINES, help='measure one engine')
    parser.add_argument('-t', '--threads', type=int, default=2)
    parser.add_argument('-p', '--prompt', type=int, default=512, help='tokens to prefill')
    parser.add_argument('-n', '--generate', type=int, default=128, help='tokens to decode')
    parser.add_argument('-d', '--depths', type=lambda text: [int(d) for d in text.split(',')], default=[0, 3900],
                        help='context before decoding, comma separated')
    parser.add_argument('-s', '--streams', type=int, default=8, help='requests at once')
    parser.add_argument('-r', '--repeats', type=int, default=2, help='samples within a run')
    parser.add_argument('--rounds', type=int, default=3, help='runs of each engine, in turn')
    parser.add_argument('--patience', type=float, default=120, help='seconds to wait for an idle machine before each run')
    parser.add_argument('--flash-attention', default='auto', choices=('auto', 'on', 'off'), help="llama.cpp's -fa")
    parser.add_argument('--json', type=Path, help='write all samples and results here')
    return parser.parse_args()


def main():
    args = parse_arguments()
    engines = available(args)
    if not engines:
        sys.exit('nothing to measure')
    reports = []
    for model in args.model:
        print(f'{model.name}, {args.threads} threads')
        records = measure_rounds(args, model, engines)
        rows, costs = compare(records), {engine: costs_of(records, engine) for engine in ENGINES}
        print_table(model, rows, costs)
        reports.append(dict(model=model.name, threads=args.threads, results=rows, costs=costs, runs=records))
        if args.json:
            args.json.write_text(json.dumps(reports, indent=1) + '\n')


if __name__ == '__main__':
    try:
        main()
    except BenchError as error:
        sys.exit(f'bench: {error}')
