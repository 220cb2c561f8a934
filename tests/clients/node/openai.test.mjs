// OpenAI's Node client against a running server; the Python tests go deeper.
//
// TAPER_URL is a server with SmolLM2, TAPER_NARROW_URL one that holds one request running and one waiting,
// TAPER_LOCKED_URL one that asks for a key.

import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI from "openai";

const { TAPER_URL, TAPER_NARROW_URL, TAPER_LOCKED_URL } = process.env;
const MODEL = "SmolLM2-135M-Instruct.Q4_1";
const CAPITAL = [{ role: "user", content: "What is the capital of France? Answer in one word." }];
const STORY = [{ role: "user", content: "Tell me a short story about a dragon." }];

const connect = (url, options) =>
    new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0, timeout: 120_000, ...options });
const client = connect(TAPER_URL);

function chat(fields, options) {
    return client.chat.completions.create({ model: MODEL, messages: STORY, max_tokens: 16, ...fields }, options);
}

const text = (completion) => completion.choices[0].message.content;

async function streamed(fields) {
    let whole = "";
    for await (const chunk of await chat({ ...fields, stream: true })) whole += chunk.choices[0]?.delta.content ?? "";
    return whole;
}

test("a chat answers the question", async () => {
    const completion = await chat({ messages: CAPITAL, temperature: 0 });
    assert.match(text(completion), /Paris/);
    assert.equal(completion.choices[0].finish_reason, "stop");
});

test("a stream says the same in pieces", async () => {
    assert.equal(await streamed({ temperature: 0 }), text(await chat({ temperature: 0 })));
});

test("a stream ends with the usage if asked", async () => {
    const chunks = [];
    const fields = { max_tokens: 5, stream: true, stream_options: { include_usage: true } };
    for await (const chunk of await chat(fields)) chunks.push(chunk);
    assert.equal(chunks.at(-1).usage.completion_tokens, 5);
    assert.deepEqual(chunks.at(-1).choices, []);
});

test("n answers differ", async () => {
    const { choices } = await chat({ n: 3, seed: 1, temperature: 1 });
    assert.equal(new Set(choices.map((choice) => choice.message.content)).size, 3);
});

test("a seed decides the text", async () => {
    const [one, same, other] = [7, 7, 8].map((seed) => chat({ seed, temperature: 1 }));
    assert.equal(text(await one), text(await same));
    assert.notEqual(text(await one), text(await other));
});

test("a stop string ends the text before it", async () => {
    const whole = text(await chat({ temperature: 0 }));
    const stop = whole.split(/\s+/)[4];
    const stopped = await chat({ temperature: 0, stop });
    assert.equal(text(stopped), whole.slice(0, whole.indexOf(stop)));
    assert.equal(stopped.choices[0].finish_reason, "stop");
});

const WEATHER = {
    type: "function",
    function: {
        name: "get_weather",
        description: "Current weather of a city",
        strict: true,
        parameters: {
            type: "object",
            properties: { city: { type: "string", maxLength: 30 }, unit: { enum: ["celsius", "fahrenheit"] } },
            required: ["city", "unit"],
            additionalProperties: false,
        },
    },
};
const QUESTION = {
    messages: [{ role: "user", content: "What is the weather in Paris, in celsius?" }],
    tools: [WEATHER],
    temperature: 0,
    max_tokens: 120,
};

function checked(call) {
    assert.equal(call.function.name, "get_weather");
    const given = JSON.parse(call.function.arguments);
    assert.deepEqual(Object.keys(given).sort(), ["city", "unit"]);
    return given;
}

test("a call that must be made is one of the schema", async () => {
    const { choices } = await chat({ ...QUESTION, tool_choice: "required", parallel_tool_calls: false });
    assert.equal(choices[0].finish_reason, "tool_calls");
    assert.equal(choices[0].message.tool_calls.length, 1);
    assert.match(checked(choices[0].message.tool_calls[0]).city, /Paris/);
});

test("the stream helper puts a call together", async () => {
    const fields = { ...QUESTION, tool_choice: { type: "function", function: { name: "get_weather" } } };
    const whole = (await chat(fields)).choices[0].message.tool_calls[0].function.arguments;
    const stream = client.chat.completions.stream({ model: MODEL, ...fields });
    const [call] = (await stream.finalChatCompletion()).choices[0].message.tool_calls;
    assert.equal(call.function.arguments, whole);
    assert.match(checked(call).city, /Paris/);
});

test("a model that may choose writes text or a call of the schema", async () => {
    const { message } = (await chat({ ...QUESTION, tool_choice: "auto" })).choices[0];
    if (message.tool_calls) message.tool_calls.forEach(checked);
    else assert.ok(message.content.trim());
});

test("tools are run until the model answers", async () => {
    let calls = 0;
    const weather = { ...WEATHER.function, parse: JSON.parse, function: () => `${++calls}: 21 degrees, clear` };
    const runner = client.chat.completions.runTools(
        { model: MODEL, ...QUESTION, tools: [{ type: "function", function: weather }] },
        { maxChatCompletions: 3 },
    );
    // The small model may answer at once, or go on calling until it may no more.
    await runner.done();
    const results = runner.messages.filter((message) => message.role === "tool");
    assert.equal(results.length, calls);
});

test("an answer follows its JSON schema", async () => {
    const schema = WEATHER.function.parameters;
    const response_format = { type: "json_schema", json_schema: { name: "weather", strict: true, schema } };
    const { messages, temperature, max_tokens } = QUESTION;
    const completion = await chat({ messages, temperature, max_tokens, response_format });
    assert.deepEqual(Object.keys(JSON.parse(text(completion))).sort(), ["city", "unit"]);
});

test("log probabilities are of the tokens of the text", async () => {
    const completion = await chat({ temperature: 0, logprobs: true, top_logprobs: 3 });
    const { content } = completion.choices[0].logprobs;
    assert.equal(content.map((token) => token.token).join(""), text(completion));
    for (const { logprob, top_logprobs } of content) {
        assert.equal(top_logprobs.length, 3);
        assert.equal(logprob, top_logprobs[0].logprob);
    }
});

test("usage adds up", async () => {
    const { usage } = await chat({ max_tokens: 7, temperature: 0 });
    assert.equal(usage.completion_tokens, 7);
    assert.equal(usage.total_tokens, usage.prompt_tokens + 7);
    assert.equal(typeof usage.prompt_tokens_details.cached_tokens, "number");
});

test("a text is continued", async () => {
    const prompt = "The capital of France is";
    const completion = await client.completions.create({ model: MODEL, prompt, max_tokens: 8, temperature: 0 });
    assert.match(completion.choices[0].text, /Paris/);
});

test("the model is listed and found", async () => {
    const ids = (await client.models.list()).data.map((model) => model.id);
    assert.deepEqual(ids, [MODEL]);
    assert.equal((await client.models.retrieve(MODEL)).id, MODEL);
});

test("a value outside its range is a BadRequestError", async () => {
    await assert.rejects(chat({ temperature: 5 }), (error) => {
        assert(error instanceof OpenAI.BadRequestError);
        assert.deepEqual([error.param, error.code], ["temperature", "invalid_value"]);
        return true;
    });
});

test("a model that is not here is a NotFoundError", async () => {
    await assert.rejects(chat({ model: "gpt-4o" }), OpenAI.NotFoundError);
});

test("a wrong key is an AuthenticationError", async () => {
    await assert.rejects(connect(TAPER_LOCKED_URL, { apiKey: "wrong" }).models.list(), OpenAI.AuthenticationError);
});

test("a full queue is a RateLimitError", async () => {
    const narrow = connect(TAPER_NARROW_URL);
    const endless = { model: MODEL, messages: STORY, stream: true, ignore_eos: true };
    const streams = [];
    await assert.rejects(async () => {
        for (let i = 0; i < 3; i++) streams.push(await narrow.chat.completions.create(endless));
    }, OpenAI.RateLimitError);
    streams.forEach((stream) => stream.controller.abort());
});

test("no server is an APIConnectionError", async () => {
    await assert.rejects(connect("http://127.0.0.1:9").models.list(), OpenAI.APIConnectionError);
});

// The caller sees at /metrics that the blocks are free again.
test("a stream and a whole answer can be given up", async () => {
    const controller = new AbortController();
    const stream = await chat({ stream: true, max_tokens: 4000, ignore_eos: true }, { signal: controller.signal });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 3) controller.abort();
    assert.equal(chunks, 3);

    const signal = AbortSignal.timeout(1000);
    await assert.rejects(chat({ max_tokens: 4000, ignore_eos: true }, { signal }), OpenAI.APIUserAbortError);
});
