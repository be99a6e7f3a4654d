// Calls with one answer, lists and watches, and timers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Question, Refused, type WaitInfo, type WatchEvent } from "../src/index.js";
import { Broker, clientOf, FaultProxy, rejection } from "./harness.js";

test("a refusal names reason, faults and metadata, and a repeat is none", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const faults = await rejection(client.open("", { timeoutMs: 0, labels: { "": "x" } }));
  assert.ok(faults instanceof Refused && faults.reason === "INVALID_FIELD");
  assert.deepEqual(
    faults.violations.map((violation) => violation.field),
    ["spec.name", "spec.timeout", 'spec.labels[""]'],
  );
  const { opened } = await client.open("refusals", { question: Question.form({ schema: { type: "integer" } }) });
  const unfit = await rejection(client.resolve(opened.token, { value: "5" }));
  assert.ok(unfit instanceof Refused && unfit.reason === "INVALID_ANSWER" && unfit.violations.length === 1);
  assert.equal(unfit.metadata.wait_id, opened.waitId);
  const first = await client.resolve(opened.token, { value: 5, answeredBy: "alice" });
  const repeat = await client.resolve(opened.token, { payloadJson: " 5 ", answeredBy: "bob" });
  assert.deepEqual([first.replayed, repeat.replayed, repeat.answeredBy], [false, true, "alice"]);
  const late = await rejection(client.resolve(opened.token, { value: 6 }));
  assert.ok(late instanceof Refused && late.code === "FAILED_PRECONDITION" && late.reason === "ALREADY_SETTLED");
  assert.equal(late.metadata.state, "RESOLVED");
  const unknown = await rejection(client.attach("abey_unknown"));
  assert.ok(unknown instanceof Refused && unknown.reason === "TOKEN_UNKNOWN");
});

test("a question that comes later is waited for, and then set once", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const { opened } = await client.open("later", { questionLater: true, key: "later", namespace: "team" });
  assert.ok(opened.questionPending);
  const early = await rejection(client.resolve(opened.token, { value: 1 }));
  assert.ok(early instanceof Refused && early.reason === "QUESTION_NOT_SET" && (early.retryDelayMs ?? 0) > 0);
  await client.setQuestion(opened.token, Question.free("how many?"));
  await client.setQuestion(opened.token, Question.free("how many?"));
  const other = await rejection(client.setQuestion(opened.token, Question.free("how much?")));
  assert.ok(other instanceof Refused && other.reason === "QUESTION_CONFLICT");
  const wait = await client.attach({ key: "later", namespace: "team" });
  assert.equal(wait.token, opened.token);
  await client.resolve(opened.token, { value: 1 });
  assert.equal((await wait.outcome()).state, "resolved");
});

test("the largest refusal arrives whole", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const calls = Array.from({ length: 64 }, (_, n) => ({
    toolCallId: `${n}-`.padEnd(250, "x"),
    toolName: "t",
    kind: "approval" as const,
  }));
  const { opened } = await client.open("largest", { question: Question.toolCalls(calls) });
  const error = await rejection(client.resolve(opened.token, { payloadJson: '{"approvals": {}}' }));
  assert.ok(error instanceof Refused && error.reason === "INVALID_ANSWER");
  assert.ok(error.violations.length > 5);
  assert.match(error.violations.at(-1)?.description ?? "", /\d+ more/);
});

test("decisions come one by one, from several people, and are told as they come", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const kind = "approval" as const;
  const calls = ["a", "b", "c"].map((toolCallId) => ({ toolCallId, toolName: "t", kind }));
  const wait = await client.wait("parts", { question: Question.toolCalls(calls) });
  assert.equal(wait.decided, undefined);
  const told: string[][] = [];
  const telling = (async () => {
    for await (const decided of wait.progress()) {
      told.push(decided.decisions.map((decision) => `${decision.toolCallId} ${decision.answeredBy}`));
    }
  })();
  const first = await client.approve(wait.token, "b", { answeredBy: "alice" });
  assert.deepEqual([first.state, first.decided?.pendingCalls], ["pending", 2]);
  const again = await client.approve(wait.token, "b", { answeredBy: "bob" });
  assert.deepEqual([again.replayed, again.decided?.decisions[0]?.answeredBy], [true, "alice"]);
  const other = await rejection(client.deny(wait.token, "b"));
  assert.ok(other instanceof Refused && other.reason === "ALREADY_DECIDED" && other.metadata.tool_call_id === "b");
  await client.deny(wait.token, "a", "No.");
  const last = await client.deny(wait.token, "c");
  assert.equal(last.state, "resolved");
  const outcome = await wait.outcome();
  await telling;
  assert.ok(told.every((decisions, n) => decisions[0] === "b alice" && decisions.length > (told[n - 1]?.length ?? 0)));
  assert.ok(outcome.results?.isApproved("b") && !outcome.results.isApproved("a"));
});

test("C64: the text of an answer stays what it was, 1 MiB of it too", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const texts = ["9007199254740993", "12345678901234567890123", "1.10", "1e2", '{"é": "😀\\u00e9", "a":1.0}'];
  texts.push(JSON.stringify("x".repeat((1 << 20) - 2)));
  for (const payloadJson of texts) {
    const wait = await client.wait("exact", { question: Question.freeJson(payloadJson) });
    await client.resolve(wait.token, { payloadJson });
    const outcome = await wait.outcome();
    assert.ok(outcome.state === "resolved" && outcome.payloadJson === payloadJson);
    const { question } = await client.get(wait.waitId);
    assert.ok(question?.kind === "free" && question.json === payloadJson);
  }
});

test("lists go through all pages", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  for (let n = 0; n < 7; n += 1) {
    const { opened } = await client.open(`n-${n}`, { labels: { team: n % 2 ? "odd" : "even" } });
    if (n === 0) {
      await client.cancel(opened.token);
    }
  }
  const names = async (options: Parameters<typeof client.list>[0]) => {
    const found: string[] = [];
    for await (const wait of client.list(options)) {
      found.push(wait.name);
    }
    return found;
  };
  assert.deepEqual(await names({ pageSize: 2 }), ["n-6", "n-5", "n-4", "n-3", "n-2", "n-1", "n-0"]);
  assert.deepEqual(await names({ states: ["pending"], labels: { team: "even" } }), ["n-6", "n-4", "n-2"]);
  assert.deepEqual(await names({ states: ["cancelled"], name: "n-0" }), ["n-0"]);
  assert.deepEqual(await names({ minAgeMs: 3_600_000 }), []);
  assert.deepEqual(await names({ namespace: "other" }), []);
  assert.ok((await rejection(client.list({ pageSize: -1 }).next())) instanceof Refused);
});

test("a watch begins again by itself after a cut, and tells what it was told before anew", async (t) => {
  const broker = await Broker.start(t);
  const proxy = await FaultProxy.start(t, broker.address);
  const client = clientOf(t, proxy.address);
  const direct = clientOf(t, broker.address);
  const { opened } = await direct.open("watched");
  const watch = client.watch({ name: "watched", states: ["pending"] });
  const told = (event: WatchEvent): string =>
    event.kind === "wait" ? `${event.wait.name} ${event.wait.state}` : event.kind;
  const next = async (count: number) => {
    const events: string[] = [];
    while (events.length < count) {
      events.push(told((await watch.next()).value));
    }
    return events;
  };
  assert.deepEqual(await next(3), ["began", "watched pending", "synced"]);
  await proxy.command("cut");
  assert.deepEqual(await next(3), ["began", "watched pending", "synced"]);
  await direct.resolve(opened.token, { value: 1 });
  assert.deepEqual(await next(1), ["watched resolved"]);
  const controller = new AbortController();
  const ended = rejection(
    client
      .watch({ name: "none", signal: controller.signal })
      .next()
      .then(() => controller.abort("over"))
      .then(() => client.watch({ signal: controller.signal }).next()),
  );
  assert.equal(await ended, "over");
  await client.close();
  assert.match(String(await rejection(watch.next())), /^Stopped: /);
});

test("a watch on which nothing lives is given up", async (t) => {
  const broker = await Broker.start(t, "--alive-interval", "200ms");
  const proxy = await FaultProxy.start(t, broker.address);
  const watch = clientOf(t, proxy.address).watch();
  assert.deepEqual((await watch.next()).value, { kind: "began" });
  assert.deepEqual((await watch.next()).value, { kind: "synced" });
  const next = watch.next();
  // Its period must be known: it is told with the signs of life.
  await new Promise((resolve) => setTimeout(resolve, 1000));
  await proxy.command("freeze");
  const frozen = performance.now();
  assert.deepEqual((await next).value, { kind: "began" });
  const took = performance.now() - frozen;
  assert.ok(took < 400 + 250 + 1500, `${took} ms`);
});

test("C16: no timer is longer than the window, whatever the timeout", async (t) => {
  const broker = await Broker.start(t);
  const delays: number[] = [];
  const { setTimeout: real } = globalThis;
  t.mock.method(globalThis, "setTimeout", (callback: () => void, delay?: number, ...rest: []) => {
    delays.push(delay ?? 0);
    return real(callback, delay, ...rest);
  });
  const client = clientOf(t, broker.address);
  const wait = await client.wait("sixty-days", { timeoutMs: 60 * 86_400_000, heartbeatTimeoutMs: 50 * 86_400_000 });
  const info: WaitInfo = await client.describe(wait.token);
  assert.deepEqual([info.timeoutMs, info.heartbeatTimeoutMs], [60 * 86_400_000, 50 * 86_400_000]);
  assert.deepEqual([info.timeoutSource, info.state], ["timeout", "pending"]);
  await client.cancel(wait.token);
  assert.equal((await wait.outcome()).state, "cancelled");
  const longest = Math.max(...delays);
  assert.ok(longest >= 54 * 60_000 && longest <= 60 * 60_000, `${longest} ms: the window of the stream`);
});
