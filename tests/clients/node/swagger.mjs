// Opens Swagger UI in a real browser, tries two operations out, and says what went wrong.
//
//     node swagger.mjs URL CHROMIUM SCREENSHOT
//
// URL is where the API is, without /docs/. TAPER_KEY, if not empty, is what the user types when the browser asks for a
// password. Ends with 1 and a list of the faults if there are any.

import { chromium } from "playwright-core";

const [url, executablePath, screenshot] = process.argv.slice(2);
const faults = [];
const say = (ok, text) => (ok ? console.log(text) : faults.push(text));

// Chromium's sandbox refuses root, as whom tests in a container run.
const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
const browser = await chromium.launch({ executablePath, args });
try {
    const { TAPER_KEY } = process.env;
    const httpCredentials = TAPER_KEY ? { username: "anyone", password: TAPER_KEY } : undefined;
    const page = await browser.newPage({ viewport: { width: 1280, height: 1600 }, httpCredentials });
    page.setDefaultTimeout(60_000);
    watch(page);
    await page.goto(`${url}/docs/`);
    await page.locator(".opblock").first().waitFor();
    const operations = await page.locator(".opblock").count();
    say(operations >= 15, `${operations} operations are shown`);
    const title = await page.locator(".info .title").innerText();
    say(title.startsWith("Taper"), `the page begins with ${JSON.stringify(title)}`);
    await page.screenshot({ path: screenshot });

    const list = await tryOut(page, "get", "/v1/models");
    say(JSON.parse(list).object === "list", `GET /v1/models gives ${one(list)}`);

    const question = { role: "user", content: "What is the capital of France? Answer in one sentence." };
    const body = { messages: [question], max_tokens: 16, temperature: 0 };
    const answer = await tryOut(page, "post", "/v1/chat/completions", JSON.stringify(body, null, 2));
    say(JSON.parse(answer).object === "chat.completion", `POST /v1/chat/completions gives ${one(answer)}`);
    const block = page.locator(".opblock-post.is-open");
    await block.screenshot({ path: screenshot.replace(".png", "-executed.png") });
} catch (error) {
    faults.push(error.message);
} finally {
    await browser.close();
}
faults.forEach((fault) => console.log(`FAULT: ${fault}`));
process.exitCode = faults.length > 0 ? 1 : 0;

// Notes what a user would see in the browser's console, and requests that fail or leave this server.
function watch(page) {
    const host = new URL(url).host;
    page.on("console", (message) => {
        if (message.type() === "error") faults.push(`console: ${message.text()} (${message.location().url})`);
    });
    page.on("pageerror", (error) => faults.push(`the page's script: ${error.message}`));
    page.on("requestfailed", (request) => faults.push(`${request.url()}: ${request.failure()?.errorText}`));
    page.on("request", (request) => {
        const asked = new URL(request.url());
        if (asked.protocol !== "data:" && asked.protocol !== "blob:" && asked.host !== host)
            faults.push(`a request to another host: ${asked}`);
    });
    page.on("response", (response) => {
        if (response.status() >= 400) faults.push(`${response.url()} answers ${response.status()}`);
    });
}

// The body that "Execute" shows, after a 200.
async function tryOut(page, method, path, body) {
    const block = page.locator(`.opblock-${method}`).filter({ has: page.locator(`[data-path="${path}"]`) });
    await block.locator(".opblock-summary-control").click();
    await block.getByRole("button", { name: "Try it out" }).click();
    if (body !== undefined) await block.locator("textarea.body-param__text").fill(body);
    await block.getByRole("button", { name: "Execute" }).click();
    const live = block.locator(".live-responses-table");
    await live.waitFor();
    const status = (await live.locator("tbody td.response-col_status").first().innerText()).trim();
    say(status.startsWith("200"), `${method} ${path}: ${status.split("\n")[0]}`);
    const curl = await block.locator(".curl-command").innerText();
    say(curl.includes(`${url}${path}`), `Swagger UI asks ${url}${path}`);
    return live.locator(".response-col_description .highlight-code pre").first().innerText();
}

function one(text) {
    return text.replace(/\s+/g, " ").slice(0, 120);
}
