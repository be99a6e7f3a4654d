// What connections do, and what the client makes of it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { type Outcome, Unavailable } from "../src/index.js";
import { Broker, clientOf, FaultProxy, Log, rejection } from "./harness.js";

const ALIVE = ["--alive-interval", "1s"];

function payload(outcome: Outcome): string {
  assert.equal(outcome.state, "resolved");
  return outcome.state === "resolved" ? outcome.payloadJson : "";
}

test("a cut is never an answer, and the same wait is attached to again", async (t) => {
  const broker = await Broker.start(t, ...ALIVE);
  const proxy = await FaultProxy.start(t, broker.address);
  const log = new Log();
  const wait = await clientOf(t, proxy.address, { logger: log }).wait("cut");
  for (let cuts = 1; cuts <= 3; cuts += 1) {
    const connections = proxy.count("connection");
    // A connection that is told has perhaps not come about yet, and is cut the next time.
    while (proxy.count("cut") < cuts) {
      await proxy.command("cut");
    }
    await proxy.until(() => proxy.count("connection") > connections);
  }
  const resolver = clientOf(t, broker.address);
  await resolver.resolve(wait.token, { payloadJson: "[1.0]" });
  assert.equal(payload(await wait.outcome()), "[1.0]");
  assert.equal(payload(await wait.outcome()), "[1.0]");
  assert.ok(wait.reattached >= 1 && wait.reattached <= 3, `${wait.reattached}`);
  assert.deepEqual(log.warnings, []);
  assert.ok(log.lines.length > 0 && !log.lines.some((line) => line.includes(wait.token)));
});

test("C06: a frozen connection is given up within twice the alive interval, and a new one is made", async (t) => {
  const broker = await Broker.start(t, ...ALIVE);
  const proxy = await FaultProxy.start(t, broker.address);
  const client = clientOf(t, proxy.address);
  const waits = await Promise.all(["a", "b", "c"].map((name) => client.wait(name)));
  assert.equal(proxy.count("connection"), 1);
  await proxy.command("freeze");
  const frozen = performance.now();
  const resolver = clientOf(t, broker.address);
  for (const wait of waits) {
    await resolver.resolve(wait.token, { value: wait.opened.waitId });
  }
  const outcomes = await Promise.all(waits.map((wait) => wait.outcome()));
  const took = performance.now() - frozen;
  assert.deepEqual(
    outcomes.map(payload),
    waits.map((wait) => JSON.stringify(wait.waitId)),
  );
  // Twice the interval, the first try's jitter, and what a busy machine takes.
  assert.ok(took > 1000 && took < 2000 + 250 + 1500, `${took} ms`);
  assert.equal(proxy.count("connection"), 2, "all waits share the new connection");
});

test("a call on a frozen connection is repeated on a new one", async (t) => {
  const broker = await Broker.start(t, ...ALIVE);
  const proxy = await FaultProxy.start(t, broker.address);
  const client = clientOf(t, proxy.address, { attemptTimeoutMs: 500 });
  const { opened } = await client.open("frozen");
  await proxy.command("freeze");
  const settled = await client.resolve(opened.token, { value: 1 });
  assert.deepEqual([settled.state, settled.replayed], ["resolved", true]);
  assert.equal(proxy.count("connection"), 2);
});

test("C12: a server that scolds is heard: one warning, few connections, the same waits", async (t) => {
  const broker = await Broker.start(t, ...ALIVE);
  const proxy = await FaultProxy.start(t, broker.address, "--scold-after", "0.5");
  const log = new Log();
  // A tenth of the real delays: restraint begins below 0.8 s, then 1.6 s, then 3 s.
  const client = clientOf(t, proxy.address, { logger: log, backoff: { baseMs: 25, capMs: 3000 } });
  const waits = await Promise.all(Array.from({ length: 20 }, () => client.wait("scolded")));
  await proxy.until(() => proxy.count("scolded") >= 3);
  await proxy.until(() => proxy.count("connection") >= 4);
  await proxy.command("calm");
  const times = (event: string) => proxy.events.filter((e) => e.event === event).map((e) => e.at);
  const scolded = times("scolded");
  const rests = times("connection")
    .slice(1)
    .map((at, n) => at - (scolded[n] ?? 0));
  assert.equal(rests.length, 3, "one connection for each scolding, however many waits there are");
  // The longest of twenty random delays below 0.8 s, 1.6 s and 3 s.
  assert.ok((rests[0] ?? 0) > 0.3 && (rests[1] ?? 0) > 0.6 && (rests[2] ?? 0) > 1.2, rests.join(" "));
  const resolver = clientOf(t, broker.address);
  await Promise.all(waits.map((wait) => resolver.resolve(wait.token, { value: wait.waitId })));
  const outcomes = await Promise.all(waits.map((wait) => wait.outcome()));
  assert.deepEqual(
    outcomes.map(payload),
    waits.map((wait) => JSON.stringify(wait.waitId)),
  );
  assert.equal(log.warnings.length, 1, log.warnings.join("\n"));
  assert.match(log.warnings[0] ?? "", /restraint.*ENHANCE_YOUR_CALM/);
});

test("the client's own window ends a stream as planned: at once, without a trace of trouble", async (t) => {
  const broker = await Broker.start(t, ...ALIVE);
  const log = new Log();
  const client = clientOf(t, broker.address, { attachWindowMs: 300, logger: log });
  const begun = performance.now();
  const wait = await client.wait("windows", { timeoutMs: 3000 });
  const outcome = await wait.outcome();
  const took = performance.now() - begun;
  assert.equal(outcome.state, "expired");
  assert.ok(took > 2900 && took < 5500, `${took} ms: the window is no timeout of the wait`);
  assert.ok(wait.reattached >= 5 && wait.reattached <= 12, `${wait.reattached} windows of 270 to 300 ms in 3 s`);
  assert.deepEqual(
    log.lines.filter((line) => line.startsWith("trying again")),
    [],
  );
});

test("a broker's planned end of a stream is followed by the next stream", async (t) => {
  const broker = await Broker.start(t, ...ALIVE, "--stream-lifetime", "1s");
  const log = new Log();
  const wait = await clientOf(t, broker.address, { logger: log }).wait("lifetime", { timeoutMs: 3500 });
  assert.equal((await wait.outcome()).state, "expired");
  assert.ok(wait.reattached >= 2, `${wait.reattached}`);
  assert.deepEqual(log.warnings, []);
});

test("a broker that is killed and started again is the same broker", async (t) => {
  const broker = await Broker.start(t, ...ALIVE);
  const client = clientOf(t, broker.address);
  const wait = await client.wait("restart", { key: "k" });
  await broker.kill();
  const resolving = client.resolve(wait.token, { value: "late" });
  await broker.start();
  assert.equal((await resolving).state, "resolved");
  assert.equal(payload(await wait.outcome()), '"late"');
  assert.ok(wait.reattached >= 1);
});

test("calls give up when patience ends, waits that are attached do not", async (t) => {
  const broker = await Broker.start(t, ...ALIVE);
  const log = new Log();
  const client = clientOf(t, broker.address, { patienceMs: 600, logger: log });
  const wait = await client.wait("patience");
  await broker.kill();
  const begun = performance.now();
  const errors = await Promise.all([
    rejection(client.resolve(wait.token, { value: 1 })),
    rejection(client.wait("another")),
    rejection(client.attach(wait.token)),
    rejection(client.watch().next()),
  ]);
  const took = performance.now() - begun;
  for (const error of errors) {
    assert.ok(error instanceof Unavailable && error.code === "UNAVAILABLE", String(error));
    assert.ok(
      error.message.startsWith(`the broker cannot be reached at ${broker.address}, tried for 0.`),
      error.message,
    );
    assert.match(error.message, /; is `abeyance serve` running there\?$/);
    assert.doesNotMatch(error.message, /Resolution note/);
  }
  assert.equal(log.warnings.length, 1, String(log.warnings));
  assert.ok(log.warnings[0]?.startsWith(`no answer from the broker at ${broker.address}, trying again: `));
  assert.ok(took >= 590 && took < 3000, `${took} ms`);
  await broker.start();
  await client.resolve(wait.token, { value: 2 });
  assert.equal(payload(await wait.outcome()), "2");
  await broker.kill();
  await rejection(client.describe(wait.token));
  assert.equal(log.warnings.length, 2, "gone again, after a call that succeeded");
});

test("C19: waits by the hundred do not keep a call from its turn", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const waits = await Promise.all(Array.from({ length: 500 }, (_, n) => client.wait(`crowd-${n}`)));
  const last = waits.at(-1);
  assert.ok(last);
  const begun = performance.now();
  await client.resolve(last.token, { value: "x" });
  const took = performance.now() - begun;
  assert.equal(payload(await last.outcome()), '"x"');
  // A second, and what a machine takes that runs other tests beside this one.
  assert.ok(took < 3000, `${took} ms`);
});

test("detaching lets go of a wait and nothing more", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  let token: string;
  {
    await using wait = await client.wait("detached");
    token = wait.token;
  }
  assert.equal((await client.describe(token)).state, "pending");
  const again = await client.attach(token);
  assert.equal(again.opened.resumed, true);
  await client.close();
  assert.match(String(await rejection(again.outcome())), /^Stopped: /);
  assert.match(String(await rejection(client.describe(token))), /^Stopped: /);
});
