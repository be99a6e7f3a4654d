// A broker, a worker that asks about two tool calls, and people who press buttons.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { AbeyanceClient } from "abeyance";

import { isGenuine, sign } from "./signature.js";

const BROKER = process.env.ABEYANCE_BIN ?? fileURLToPath(new URL("../../target/debug/abeyance", import.meta.url));
const SECRET = "a secret that the chat knows";

/** Starts a program that prints `listening on HOST:PORT`, and ends it with the test. */
async function start(t, program, args, env = {}) {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  const stop = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  t.after(stop);
  for await (const line of createInterface({ input: child.stdout })) {
    const address = /^listening on (\S+)/.exec(line)?.[1];
    if (address !== undefined) {
      return { address, stop };
    }
  }
  throw new Error(`${program} did not start`);
}

test("a body is signed as a whole, and for now", () => {
  const headers = { "x-timestamp": "1000", "x-signature": sign(SECRET, "1000", "{}") };
  assert.ok(isGenuine(SECRET, headers, "{}", 1299));
  assert.ok(!isGenuine(SECRET, headers, "{ }", 1000));
  assert.ok(!isGenuine("another", headers, "{}", 1000));
  assert.ok(!isGenuine(SECRET, headers, "{}", 1301));
  assert.ok(!isGenuine(SECRET, { ...headers, "x-timestamp": "1001" }, "{}", 1000));
  assert.ok(!isGenuine(SECRET, {}, "{}", 1000));
});

test("buttons decide, and whoever presses too late or wrongly is told", async (t) => {
  const data = await mkdtemp(join(tmpdir(), "abeyance-webhook-"));
  t.after(() => rm(data, { recursive: true, force: true }));
  const broker = await start(t, BROKER, ["serve", "--listen", "127.0.0.1:0", "--data-dir", data, "--log", "error"]);
  const env = { ABEYANCE_TARGET: broker.address, WEBHOOK_SECRET: SECRET, PORT: "0" };
  const webhook = await start(t, process.execPath, [fileURLToPath(new URL("main.js", import.meta.url))], env);
  const press = async (button, secret = SECRET) => {
    const body = JSON.stringify(button);
    const timestamp = String(Math.floor(Date.now() / 1000));
    const headers = { "x-timestamp": timestamp, "x-signature": sign(secret, timestamp, body) };
    const response = await fetch(`http://${webhook.address}/`, { method: "POST", body, headers });
    const { text, reason, faults } = await response.json();
    return { status: response.status, text, reason, faults };
  };

  const client = new AbeyanceClient(broker.address);
  t.after(() => client.close());
  const calls = ["call_1", "call_2"].map((toolCallId) => ({ toolCallId, toolName: "refund", kind: "approval" }));
  let hand;
  const handed = new Promise((resolve) => {
    hand = resolve;
  });
  const working = client.requestInput("refund", calls, (ticket) => hand(ticket.token), { timeoutMs: 60_000 });
  const token = await handed;

  const approve = { action: "approve", token, tool_call_id: "call_1" };
  assert.equal((await press({ ...approve, user: "alice" }, "guessed")).status, 401);
  assert.deepEqual(await press({ ...approve, user: "alice" }), {
    status: 200,
    text: "Recorded by alice. 1 still open.",
    reason: undefined,
    faults: undefined,
  });
  assert.equal((await press({ ...approve, user: "bob" })).text, "Already recorded by alice. 1 still open.");
  const otherwise = await press({ ...approve, action: "deny", user: "bob" });
  assert.deepEqual([otherwise.status, otherwise.reason], [409, "ALREADY_DECIDED"]);
  const unknown = await press({ ...approve, tool_call_id: "call_9", user: "bob" });
  assert.deepEqual([unknown.status, unknown.reason], [422, "INVALID_ANSWER"]);
  assert.equal(unknown.faults[0].field, 'approvals["call_9"]');
  assert.equal((await press({ action: "jump", token })).status, 400);
  assert.equal((await press({ action: "answer", token })).status, 400);
  const deny = { action: "deny", token, tool_call_id: "call_2", message: "Too much.", user: "bob" };
  assert.equal((await press(deny)).text, "Recorded by bob.");

  const { results } = await working;
  assert.ok(results.isApproved("call_1"));
  assert.deepEqual(results.approvals.get("call_2"), { kind: "denied", message: "Too much." });

  const { opened } = await client.open("colour");
  assert.equal((await press({ action: "answer", token: opened.token, value: "red", user: "eve" })).status, 200);
  const late = await press({ action: "answer", token: opened.token, value: "blue", user: "bob" });
  assert.deepEqual([late.status, late.reason], [409, "ALREADY_SETTLED"]);
  assert.match(late.text, /^Too late: it is resolved since 20/);
  assert.equal((await press({ action: "answer", token: "abey_x", value: 1 })).status, 404);

  await broker.stop();
  const begun = performance.now();
  assert.equal((await press({ action: "answer", token: opened.token, value: "red" })).status, 503);
  assert.ok(performance.now() - begun < 3000, "whoever pressed has an answer within 3 s");
});
