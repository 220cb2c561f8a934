//! `taper bench`: prompt processing and generation in tokens per second, through the whole engine.
//!
//! As `llama-bench` defines its tests: `ppN` runs a prompt of N random tokens, `tgN` generates N tokens one by one,
//! either with `depth` tokens already in the cache. With several streams, all submit a prompt of 54 tokens at once and
//! generate N; the figure is the generated tokens of all of them over the wall time, in which the prompts are read, too.

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::model::open;
use super::progress::{LoadBar, MeasureBar};
use taper_models::threads::num_threads;
use taper_server::engine::sampling::SamplingParams;
use taper_server::engine::{EngineHandle, Event, FinishReason, Request, RequestHandle};
use taper_server::loading::{Running, start};
use taper_server::settings::{BenchSettings, Settings};

/// Prompt of each stream where there are several; the length that our measurements of llama-server used.
const STREAM_PROMPT: usize = 54;

/// What one row of the report measures.
#[derive(Clone, Copy)]
enum Test {
    /// A prompt of so many tokens.
    Prompt(usize),
    /// So many generated tokens, in each of several streams.
    Generation { tokens: usize, streams: usize },
}

/// One row of the report.
struct Row {
    test: Test,
    depth: usize,
    /// Tokens per second of each repetition.
    samples: Vec<f64>,
}

/// Measures and prints.
pub fn run(settings: &Settings) -> Result<()> {
    let mut engine_settings = settings.engine.clone();
    // A cached prefix would not be computed, and so not measured.
    engine_settings.prefix_cache = false;
    engine_settings.parallel = parallel(settings);
    let begun = Instant::now();
    let opened = open(settings)?;
    let mut bar = LoadBar::new();
    let Running { engine, .. } =
        start(&opened, Vec::new(), &engine_settings, &mut |done, total| bar.update(done, total))?;
    bar.finish();
    let load_seconds = begun.elapsed().as_secs_f64();
    let mut bench = Bench { engine, vocab_size: opened.spec.vocab_size as u64, state: 1 };
    let rows = bench.rows(&settings.bench)?;
    let threads = num_threads();
    let report = json!({
        "model": settings.model,
        "threads": threads,
        "results": rows.iter().map(Row::json).collect::<Vec<_>>(),
        "peak_rss_bytes": peak_rss_bytes(),
        "load_seconds": load_seconds,
    });
    if settings.json {
        writeln!(std::io::stdout(), "{report:#}")?;
    } else {
        print_table(&rows, threads, load_seconds)?;
    }
    Ok(())
}

/// Sequences that run at once: what the user says, else as many as there are streams.
fn parallel(settings: &Settings) -> usize {
    let streams = settings.bench.streams.iter().copied().max().unwrap_or(1);
    let parallel = settings.engine.parallel;
    if !settings.is_given("parallel") {
        return streams;
    }
    if parallel < streams {
        let given = settings.spelled("parallel");
        tracing::warn!("{given} {parallel} is less than {streams} streams: some of them will wait for others");
    }
    parallel
}

/// Every combination of the lists, in the report's order.
fn tests(bench: &BenchSettings) -> Vec<(Test, usize)> {
    let mut tests = Vec::new();
    for &depth in &bench.n_depth {
        tests.extend(bench.n_prompt.iter().filter(|tokens| **tokens > 0).map(|&tokens| (Test::Prompt(tokens), depth)));
        for &tokens in bench.n_gen.iter().filter(|tokens| **tokens > 0) {
            tests.extend(bench.streams.iter().map(|&streams| (Test::Generation { tokens, streams }, depth)));
        }
    }
    tests
}

struct Bench {
    engine: EngineHandle,
    vocab_size: u64,
    /// Of the random tokens.
    state: u64,
}

impl Bench {
    /// Of each test one unmeasured run, then as many measured ones as asked for.
    fn rows(&mut self, settings: &BenchSettings) -> Result<Vec<Row>> {
        let tests = tests(settings);
        let bar = MeasureBar::new(tests.len() * (settings.repetitions + 1));
        let mut rows = Vec::new();
        for (test, depth) in tests {
            let name = format!("{} at depth {depth}, streams: {}", test.name(), test.streams());
            let mut samples = Vec::new();
            for _ in 0..=settings.repetitions {
                bar.begin(name.clone());
                samples.push(self.measure(test, depth).with_context(|| name.clone())?);
            }
            rows.push(Row { test, depth, samples: samples.split_off(1) });
        }
        bar.finish();
        Ok(rows)
    }

    fn measure(&mut self, test: Test, depth: usize) -> Result<f64> {
        match test {
            Test::Prompt(tokens) => self.prefill(depth, tokens),
            Test::Generation { tokens, streams: 1 } => self.decode(depth, tokens),
            Test::Generation { tokens, streams } => self.streams(depth, tokens, streams),
        }
    }

    /// Time of the first token with the prompt, less that without it.
    fn prefill(&mut self, depth: usize, tokens: usize) -> Result<f64> {
        let without = if depth > 0 { self.first_token_seconds(depth)? } else { 0.0 };
        let seconds = self.first_token_seconds(depth + tokens)? - without;
        if seconds <= 0.0 {
            bail!("the machine is too noisy: {tokens} more tokens took no time");
        }
        Ok(tokens as f64 / seconds)
    }

    fn first_token_seconds(&mut self, prompt: usize) -> Result<f64> {
        let begun = Instant::now();
        let mut request = self.submit(prompt, 1)?;
        next_token(&mut request)?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Time from the first token to the last of `tokens` further ones.
    fn decode(&mut self, depth: usize, tokens: usize) -> Result<f64> {
        let mut request = self.submit(depth.max(1), tokens + 1)?;
        next_token(&mut request)?;
        let begun = Instant::now();
        for _ in 0..tokens {
            next_token(&mut request)?;
        }
        Ok(tokens as f64 / begun.elapsed().as_secs_f64())
    }

    fn streams(&mut self, depth: usize, tokens: usize, streams: usize) -> Result<f64> {
        let begun = Instant::now();
        let requests: Vec<RequestHandle> =
            (0..streams).map(|_| self.submit(depth + STREAM_PROMPT, tokens)).collect::<Result<_>>()?;
        for mut request in requests {
            for _ in 0..tokens {
                next_token(&mut request)?;
            }
        }
        Ok((streams * tokens) as f64 / begun.elapsed().as_secs_f64())
    }

    fn submit(&mut self, prompt: usize, tokens: usize) -> Result<RequestHandle> {
        let prompt = (0..prompt).map(|_| self.random_token()).collect();
        let params = SamplingParams {
            temperature: 0.0,
            max_tokens: Some(tokens),
            ignore_eos: true,
            ..SamplingParams::default()
        };
        Ok(self.engine.submit(Request { prompt, params, ..Request::default() })?)
    }

    /// Of a linear congruential sequence (Knuth's MMIX constants): any tokens do, but the same in every run.
    fn random_token(&mut self) -> u32 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.state >> 33) % self.vocab_size) as u32
    }
}

fn next_token(request: &mut RequestHandle) -> Result<()> {
    match request.blocking_recv() {
        Some(Event::Token { .. }) => Ok(()),
        Some(Event::Finished { reason: FinishReason::Error(message), .. }) => bail!(message),
        other => bail!("expected a token, got {other:?}"),
    }
}

impl Test {
    fn name(self) -> String {
        match self {
            Self::Prompt(tokens) => format!("pp{tokens}"),
            Self::Generation { tokens, .. } => format!("tg{tokens}"),
        }
    }

    fn streams(self) -> usize {
        match self {
            Self::Prompt(_) => 1,
            Self::Generation { streams, .. } => streams,
        }
    }
}

impl Row {
    fn median(&self) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
    }

    fn json(&self) -> Value {
        json!({
            "test": self.test.name(),
            "depth": self.depth,
            "streams": self.test.streams(),
            "includes_prompts": self.test.streams() > 1,
            "tokens_per_second": self.samples,
            "median": self.median(),
        })
    }
}

fn print_table(rows: &[Row], threads: usize, load_seconds: f64) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "| test | depth | streams | tok/s (median) | lowest to highest |\n|---|---|---|---|---|")?;
    for row in rows {
        let Row { test, depth, samples } = row;
        let (test, streams) = (test.name(), test.streams());
        let lowest = samples.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = samples.iter().copied().fold(0.0, f64::max);
        writeln!(stdout, "| {test} | {depth} | {streams} | {:.1} | {lowest:.1} to {highest:.1} |", row.median())?;
    }
    if rows.iter().any(|row| row.test.streams() > 1) {
        let whole_time = format!("in which a prompt of {STREAM_PROMPT} tokens each, beyond the depth, is read, too");
        writeln!(stdout, "\nSeveral streams: the generated tokens of all over the whole time, {whole_time}.")?;
    }
    let peak = peak_rss_bytes().map_or("unknown".to_owned(), taper_server::capacity::bytes);
    writeln!(stdout, "\n{threads} threads, loaded in {load_seconds:.2} s, peak memory {peak}")?;
    Ok(())
}

/// The most memory this process has held. `None` where the system does not tell.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}
