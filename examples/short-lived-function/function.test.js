// The runner as it stands, and what it does not show: calls that come too early, an end without an answer, no second message.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { AbeyanceClient } from "abeyance";

const BROKER = process.env.ABEYANCE_BIN ?? fileURLToPath(new URL("../../target/debug/abeyance", import.meta.url));
const script = (name) => fileURLToPath(new URL(name, import.meta.url));

/** Starts a broker, and ends it with the test. */
async function startBroker(t) {
  const data = await mkdtemp(join(tmpdir(), "abeyance-function-"));
  const args = ["serve", "--listen", "127.0.0.1:0", "--data-dir", data, "--log", "error"];
  const child = spawn(BROKER, args, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  t.after(async () => {
    child.kill("SIGKILL");
    await ended;
    await rm(data, { recursive: true, force: true });
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const address = /^listening on (\S+)/.exec(line)?.[1];
    if (address !== undefined) {
      return { address, data };
    }
  }
  throw new Error(`${BROKER} did not start`);
}

test("each call returns at once, and asks nobody twice", async (t) => {
  const { address, data } = await startBroker(t);
  const env = { ...process.env, ABEYANCE_TARGET: address };
  const run = async (...args) => (await promisify(execFile)(process.execPath, args, { env })).stdout;

  const printed = (await run(script("run.js"), "17")).split("\n");
  assert.match(printed[0], /^first call {3}\{"status":"pending","order":"order-17","expires":"20/);
  assert.equal(printed[1], "message      Refund 500 for order order-17?");
  assert.equal(printed[2], 'second call  {"status":"refunded","order":"order-17","amount":500,"by":"alice"}');

  const outbox = join(data, "outbox");
  const invoke = async (event) => JSON.parse(await run(script("invoke.js"), JSON.stringify(event), outbox));
  const event = { order: "order-18", amount: 20 };
  for (let call = 1; call <= 3; call += 1) {
    assert.equal((await invoke(event)).status, "pending");
  }
  const messages = (await readFile(outbox, "utf8")).trim().split("\n");
  assert.equal(messages.length, 1, "nobody is asked twice");
  const client = new AbeyanceClient(address);
  t.after(() => client.close());
  await client.fail(JSON.parse(messages[0]).token, "the shop is closed");
  for (let call = 1; call <= 2; call += 1) {
    assert.deepEqual(await invoke(event), { status: "not refunded", order: "order-18", why: "the shop is closed" });
  }
});
