// The rules of clients/README.md that a real broker gives no occasion for.

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { status } from "@grpc/grpc-js";

import { Detached_Reason } from "../src/gen/abeyance/v1/wait_pb.js";
import { ProtocolError, Refused, type StatusCode, Stopped, Unavailable } from "../src/index.js";
import { toDuration } from "../src/time.js";
import { answer, type Event, fakeBroker, http2Server, opened, type Stream, TOKEN } from "./fake.js";
import { clientOf, Log, rejection } from "./harness.js";

/** Delays that are over at once. */
const HASTY = { backoff: { baseMs: 1, capMs: 5 } };
const CUTS: StatusCode[] = [
  "CANCELLED",
  "UNKNOWN",
  "DEADLINE_EXCEEDED",
  "RESOURCE_EXHAUSTED",
  "ABORTED",
  "INTERNAL",
  "UNAVAILABLE",
];
const VERDICTS: StatusCode[] = [
  "INVALID_ARGUMENT",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "FAILED_PRECONDITION",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "DATA_LOSS",
  "UNAUTHENTICATED",
];

test("a stream that ends without an outcome, with any status or none, is attached to again by its token", async (t) => {
  const targets: unknown[] = [];
  const address = await fakeBroker(t, {
    stream(stream, n) {
      if (n > 0) {
        assert.ok(stream.request.$typeName === "abeyance.v1.AttachRequest");
        targets.push(stream.request.target.value);
      }
      stream.send(opened());
      const code = CUTS[n];
      if (n === CUTS.length) {
        stream.end();
      } else if (code !== undefined) {
        stream.end(status[code]);
      } else {
        stream.send(answer("1")).end();
      }
    },
  });
  const wait = await clientOf(t, address, { ...HASTY, logger: new Log() }).wait("cuts");
  const outcome = await wait.outcome();
  assert.ok(outcome.state === "resolved" && outcome.payloadJson === "1");
  assert.deepEqual(targets, Array(CUTS.length + 1).fill(TOKEN));
  assert.equal(wait.reattached, CUTS.length + 1);
});

test("a clear verdict ends the trying", async (t) => {
  const codes = VERDICTS.flatMap((code) => [undefined, code]);
  let streams = 0;
  const address = await fakeBroker(t, {
    stream(stream, n) {
      streams += 1;
      const code = codes[n];
      if (code === undefined) {
        stream.send(opened()).end(status.UNAVAILABLE);
      } else {
        stream.end(status[code]);
      }
    },
  });
  const client = clientOf(t, address, HASTY);
  for (const code of VERDICTS) {
    const error = await rejection((await client.wait("verdict")).outcome());
    assert.ok(error instanceof Refused && error.code === code, `${code}: ${error}`);
  }
  assert.equal(streams, codes.length, "nothing was tried again");
});

test("an open that is not answered is repeated with its request id", async (t) => {
  const ids = new Set<string>();
  let streams = 0;
  const address = await fakeBroker(t, {
    stream(stream, n) {
      streams += 1;
      assert.ok(stream.request.$typeName === "abeyance.v1.WaitRequest");
      ids.add(stream.request.requestId);
      // Silence; an end; an end as planned; and at last what was asked for.
      if (n === 1) {
        stream.end(status.INTERNAL);
      } else if (n === 2) {
        stream.send({ case: "detached", value: { reason: Detached_Reason.DRAIN } }).end();
      } else if (n === 3) {
        stream.send({ case: undefined }, opened(), answer("1")).end();
      }
    },
  });
  const wait = await clientOf(t, address, { ...HASTY, attemptTimeoutMs: 300 }).wait("repeated");
  assert.equal((await wait.outcome()).state, "resolved");
  assert.equal(streams, 4);
  assert.equal(ids.size, 1);
});

test("events that say nothing do not keep an opening going", async (t) => {
  const address = await fakeBroker(t, {
    stream(stream) {
      const timer = setInterval(() => (stream.cancelled ? clearInterval(timer) : stream.send({ case: undefined })), 50);
      t.after(() => clearInterval(timer));
    },
  });
  const client = clientOf(t, address, { ...HASTY, attemptTimeoutMs: 300, patienceMs: 0 });
  const given = AbortSignal.timeout(5000);
  const error = await rejection(client.wait("empties", { signal: given }));
  assert.ok(error instanceof Unavailable, String(error));
});

test("an answer without a message is a fault that passes, and no verdict", async (t) => {
  let calls = 0;
  const address = await http2Server(t, (stream) => {
    calls += 1;
    stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    stream.end();
  });
  const client = clientOf(t, address, { ...HASTY, patienceMs: 100 });
  const error = await rejection(client.heartbeat(TOKEN));
  assert.ok(error instanceof Unavailable && error.code === "INTERNAL", String(error));
  assert.ok(calls > 1);
  const unimplemented = await fakeBroker(t, { stream: () => {} });
  const verdict = await rejection(clientOf(t, unimplemented).heartbeat(TOKEN));
  assert.ok(verdict instanceof Refused && verdict.code === "UNIMPLEMENTED", String(verdict));
});

test("a proxy's page in place of an answer is no call for restraint", async (t) => {
  const address = await http2Server(t, (stream) => {
    stream.respond({ ":status": 200, "content-type": "text/html" });
    stream.end("<html>no route</html>");
  });
  const log = new Log();
  const error = await rejection(clientOf(t, address, { ...HASTY, patienceMs: 100, logger: log }).heartbeat(TOKEN));
  assert.ok(error instanceof Unavailable && error.code === "RESOURCE_EXHAUSTED", String(error));
  assert.equal(log.warnings.length, 1);
  assert.match(log.warnings[0] ?? "", /^no answer from the broker at .*, trying again: /);
});

test("a wait without a key is withdrawn when its client is closed", async (t) => {
  const cancelled: string[] = [];
  const address = await fakeBroker(t, {
    stream: (stream) => void stream.send(opened()),
    called: (request) => void (request.$typeName === "abeyance.v1.CancelWaitRequest" && cancelled.push(request.token)),
  });
  const client = clientOf(t, address, HASTY);
  let waiting: Promise<unknown> = Promise.resolve();
  for (const key of ["k", undefined]) {
    await new Promise<void>((asked) => {
      waiting = rejection(client.waitForExternalEvent("left", () => asked(), { key }));
    });
  }
  await client.close();
  assert.deepEqual(cancelled, [TOKEN], "the one without a key, before the client is closed");
  assert.ok((await waiting) instanceof Stopped);
});

test("a wait without a key is withdrawn when its open is not answered, and when it is refused later", {
  timeout: 20_000,
}, async (t) => {
  const ids = new Set<string>();
  const calls: string[] = [];
  let tell = () => {};
  const address = await fakeBroker(t, {
    stream(stream, n) {
      if (stream.request.$typeName === "abeyance.v1.WaitRequest") {
        ids.add(stream.request.requestId);
      }
      // Silence; then a wait that nobody knows any more.
      if (n === 1) {
        stream.send(opened()).end();
      } else if (n === 2) {
        stream.end(status.UNIMPLEMENTED);
      }
    },
    called(request) {
      calls.push(request.$typeName);
      if (request.$typeName === "abeyance.v1.OpenWaitRequest") {
        assert.deepEqual([...ids], [request.requestId]);
      } else {
        tell();
      }
    },
  });
  const client = clientOf(t, address, { ...HASTY, attemptTimeoutMs: 300, patienceMs: 0 });
  for (const [kind, expected] of [
    [Unavailable, ["abeyance.v1.OpenWaitRequest", "abeyance.v1.CancelWaitRequest"]],
    [Refused, ["abeyance.v1.CancelWaitRequest"]],
  ] as const) {
    const withdrawn = new Promise<void>((resolve) => {
      tell = resolve;
    });
    const error = await rejection(client.waitForExternalEvent("lost", () => {}));
    assert.ok(error instanceof kind, String(error));
    await withdrawn;
    assert.deepEqual(calls.splice(0), expected);
  }
});

test("whoever gives up waiting leaves nothing behind, and a signal is listened to once", async (t) => {
  const address = await fakeBroker(t, { stream: (stream) => void stream.send(opened()) });
  const client = clientOf(t, address);
  const wait = await client.wait("long");
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const giveUp = async () => {
    const controller = new AbortController();
    const reason = {};
    const giving = rejection(wait.outcome({ signal: controller.signal }));
    controller.abort(reason);
    assert.equal(await giving, reason);
    return new WeakRef(reason);
  };
  const trace = await giveUp();
  await new Promise((resolve) => setImmediate(resolve));
  collect();
  assert.equal(trace.deref(), undefined, "the reason of whoever gave up is kept");

  const controller = new AbortController();
  let asked = 0;
  let all: Promise<unknown[]> = Promise.resolve([]);
  await new Promise<void>((resolve) => {
    const ask = () => {
      asked += 1;
      if (asked === 12) {
        resolve();
      }
    };
    const options = { key: "k", signal: controller.signal };
    all = Promise.all(Array.from({ length: 12 }, () => rejection(client.waitForExternalEvent("many", ask, options))));
  });
  assert.equal(getEventListeners(controller.signal, "abort").length, 1);
  controller.abort("enough");
  assert.deepEqual(await all, Array(12).fill("enough"));
  assert.equal(getEventListeners(controller.signal, "abort").length, 0);
});

test("resolved without an answer is not resolved", async (t) => {
  const address = await fakeBroker(t, { stream: (stream) => void stream.send(opened(), answer("")).end() });
  const error = await rejection(clientOf(t, address).waitForExternalEvent("nothing", () => {}, { key: "k" }));
  assert.ok(error instanceof ProtocolError, String(error));
});

test("events of a kind that is not known are passed over, and what is decided never shrinks", async (t) => {
  const decided = (decidedCalls: number): Event => ({
    case: "progress",
    value: { decidedCalls, pendingCalls: 3 - decidedCalls },
  });
  const address = await fakeBroker(t, {
    stream: (stream) => void stream.send(opened(), { case: undefined }, decided(2), decided(1), answer("1")).end(),
  });
  const wait = await clientOf(t, address).wait("unknown");
  assert.equal((await wait.outcome()).state, "resolved");
  assert.equal(wait.decided?.decidedCalls, 2);
});

test("a stream is read to its end, which may take a second behind the last event", async (t) => {
  const streams: Stream[] = [];
  const address = await fakeBroker(t, {
    stream(stream, n) {
      streams.push(stream);
      stream.send(opened(), answer("1"));
      if (n === 0) {
        setTimeout(() => stream.end(), 400);
      }
    },
  });
  const client = clientOf(t, address);
  await (await client.wait("late end")).outcome();
  assert.equal(streams[0]?.cancelled, false);
  const begun = performance.now();
  await (await client.wait("no end")).outcome();
  const took = performance.now() - begun;
  while (!streams[1]?.cancelled) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.ok(took >= 990 && took < 3000, `${took} ms`);
});

test("an end that the broker calls planned backs off like any other, where the stream did not live", async (t) => {
  const times: number[] = [];
  const reasons = [Detached_Reason.LIFETIME, Detached_Reason.DRAIN];
  const address = await fakeBroker(t, {
    stream(stream, n) {
      times.push(performance.now());
      const reason = reasons[n];
      if (reason === undefined) {
        stream.send(opened(), answer("1")).end();
      } else {
        stream.send(opened(), { case: "detached", value: { reason, retryDelay: toDuration(300) } }).end();
      }
    },
  });
  const log = new Log();
  const wait = await clientOf(t, address, { logger: log }).wait("planned");
  await wait.outcome();
  const [first = 0, second = 0, third = 0] = times;
  assert.ok(second - first >= 290, `${second - first} ms`);
  assert.ok(third - second >= 290, `${third - second} ms`);
  assert.equal(log.lines.filter((line) => line.startsWith("trying again in ")).length, 2, log.lines.join("\n"));
});

test("silence is death: a stream without a sign of life is given up after twice the interval that it named", async (t) => {
  const begun: number[] = [];
  const address = await fakeBroker(t, {
    stream(stream, n) {
      begun.push(performance.now());
      stream.send(opened(150));
      if (n === 1) {
        stream.send(answer("1")).end();
      }
    },
  });
  await (await clientOf(t, address, HASTY).wait("silence")).outcome();
  const [first = 0, second = 0] = begun;
  assert.ok(second - first >= 290 && second - first < 2000, `${second - first} ms`);
});

test("what was handed on is marked for as long as it takes", async (t) => {
  let marked = false;
  let stream: Stream | undefined;
  const address = await fakeBroker(t, {
    stream(given) {
      stream = given.send(opened());
    },
    markAsked(n) {
      marked = n >= 40;
      if (marked) {
        stream?.send(answer("1")).end();
        return undefined;
      }
      return status.UNAVAILABLE;
    },
  });
  const client = clientOf(t, address, { ...HASTY, patienceMs: 0 });
  assert.equal((await client.waitForExternalEvent("marked", () => {})).value, 1);
  assert.ok(marked);
});

test("a wait whose following fails does not end a process in which nobody looks", async (t) => {
  const address = await fakeBroker(t, {
    stream: (stream, n) => (n === 0 ? stream.send(opened()).end() : stream.end(status.NOT_FOUND)),
  });
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => void unhandled.push(reason);
  process.on("unhandledRejection", note);
  t.after(() => process.off("unhandledRejection", note));
  const wait = await clientOf(t, address, HASTY).wait("nobody looks");
  // There is nothing more to tell once it was refused.
  assert.equal((await wait.progress().next()).done, true);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(unhandled, []);
  const error = await rejection(wait.outcome());
  assert.ok(error instanceof Refused && error.code === "NOT_FOUND");
});
