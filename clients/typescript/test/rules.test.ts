// The rules of clients/README.md that a real broker gives no occasion for.

import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import { Detached_Reason } from "../src/gen/abeyance/v1/wait_pb.js";
import { Refused, type StatusCode } from "../src/index.js";
import { toDuration } from "../src/time.js";
import { answer, type Event, fakeBroker, opened, type Stream, TOKEN } from "./fake.js";
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

test("a planned end waits for what was asked for and no longer, any other also for its jitter", async (t) => {
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
  assert.equal(log.lines.filter((line) => line.startsWith("trying again in ")).length, 1, log.lines.join("\n"));
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
