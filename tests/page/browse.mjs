// SPDX-License-Identifier: Apache-2.0
// Drives the page in a real browser; facts come as JSON on stdin. Exit 1 with what was seen instead.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const puppeteer = createRequire(process.env.PAGE_MODULES + "/")("puppeteer-core");
const facts = JSON.parse(readFileSync(0, "utf8"));
const count = (n) => n.toLocaleString("en");

const browser = await puppeteer.launch({ executablePath: facts.chromium, args: ["--no-sandbox", "--disable-gpu"], timeout: 60_000 });
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(60_000);
  const troubles = [];
  const hosts = new Set();
  page.on("pageerror", (error) => troubles.push("error: " + error.message));
  page.on("console", (message) => { if (message.type() === "error" && !message.text().includes("401")) troubles.push("console: " + message.text()); });
  page.on("request", (request) => { if (!request.url().startsWith("data:")) hosts.add(new URL(request.url()).host); });
  const text = (selector) => page.$eval(selector, (e) => e.textContent);
  const until = (selector, wanted) =>
    page.waitForFunction((s, w) => document.querySelector(s)?.textContent.includes(w), {}, selector, wanted).catch(async () => {
      assert.fail(`${selector} never said ${wanted}: ${await text(selector)}; notice: ${await text("#notice")}`);
    });
  await page.setViewport({ width: 1280, height: 1000 });

  // Without a token nothing is shown; a wrong one is told so.
  await page.goto(facts.url);
  await page.waitForSelector("#ask:not([hidden])");
  assert.equal(await page.$eval("#runs", (e) => e.hidden), true);
  await page.type("#token", "not-the-token");
  await page.keyboard.press("Enter");
  await until("#notice", "does not know this read token");

  // With it, from the address, which does not keep it.
  await page.goto("about:blank");
  await page.goto(facts.url + "#token=" + encodeURIComponent(facts.token));
  await until("#run-rows", "seen");
  assert.ok(!page.url().includes(facts.token), page.url());
  assert.ok((await text("#run-rows")).includes(count(facts.points)), await text("#run-rows"));
  assert.equal(await page.$$eval("#run-rows tr", (rows) => rows.length), 2);
  await page.type("#filter", "oth");
  assert.equal(await page.$$eval("#run-rows tr", (rows) => rows.length), 1);
  await page.$eval("#filter", (e) => { e.value = ""; e.dispatchEvent(new Event("input")); });
  await page.screenshot({ path: facts.shots + "/runs.png" });

  // A run by keyboard: Tab to its link, Enter.
  await page.evaluate(() => [...document.querySelectorAll("#run-rows a")].find((a) => a.textContent === "seen").focus());
  await page.keyboard.press("Enter");
  await until("#heat-note", "opens an environment");
  assert.deepEqual(await page.$$eval("#metrics li", (items) => items.map((i) => i.textContent)), facts.metrics);
  assert.ok((await text("#run-facts")).includes(count(facts.points)), await text("#run-facts"));
  assert.ok((await text("#curve-title")).startsWith("m00"), await text("#curve-title"));
  assert.equal(await page.$$eval("#curve canvas", (c) => c.length), 1);
  assert.ok((await text("#heat-title")).includes(count(facts.envs) + " environments"), await text("#heat-title"));

  // The cell under Down once holds environments 5 to 9 of step 0; its mean is the one SQL gives.
  await page.focus("#heat");
  await page.keyboard.press("ArrowDown");
  await until("#heat-note", "environment 5 to 9, step 0");
  const shown = Number((await text("#heat-note")).match(/mean (\S+)/)[1]);
  assert.ok(Math.abs(shown - Number(facts.cell)) <= 1e-9 * Math.abs(shown), `${shown} is not ${facts.cell}`);
  await page.keyboard.press("Enter");
  await until("#trace-title", `environment 5: ${count(facts.steps)} values`);
  await page.screenshot({ path: facts.shots + "/run-light.png", fullPage: true });

  // Fewer steps: both panels follow.
  for (const [box, value] of [["#lo", "10"], ["#hi", "19"]]) await page.$eval(box, (e, v) => { e.value = v; }, value);
  await page.click("#range button");
  await until("#heat-title", "steps 10 to 19");
  await page.type("#env", "");
  await page.$eval("#env", (e) => { e.value = "999"; });
  await page.click("#env-form button");
  await until("#trace-title", "environment 999: 10 values");
  // Another metric keeps the range and the environment.
  await page.evaluate(() => [...document.querySelectorAll("#metrics a")].find((a) => a.textContent === "m02").click());
  await until("#trace-title", "m02, environment 999: 10 values");
  // Nonsense is told, not sent.
  await page.$eval("#lo", (e) => { e.value = "x"; });
  await page.click("#range button");
  await until("#notice", "two whole numbers");

  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await page.waitForFunction(() => document.querySelector("#notice").hidden && document.querySelector("#trace canvas"));
  await until("#trace-title", "environment 999: 10 values");
  await page.screenshot({ path: facts.shots + "/run-dark.png", fullPage: true });

  // A run that does not exist, with a name that would be markup.
  await page.goto(facts.url + "#" + new URLSearchParams({ run: "<img src=x onerror=document.title=1>" }));
  await until("#run-title", "<img");
  await until("#curve-title", "No points yet");
  assert.equal(await page.$$eval("#run-title img", (i) => i.length), 0);

  assert.deepEqual([...hosts], [new URL(facts.url).host]);
  assert.deepEqual(troubles, []);
  console.log("page: as SQL says, both themes, keyboard, one host");
} finally {
  await browser.close();
}
