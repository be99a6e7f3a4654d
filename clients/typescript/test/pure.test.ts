// What needs no broker.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { anyPack, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Metadata, status } from "@grpc/grpc-js";
import { Answered, resolveRequest } from "../src/answer.js";
import { bound, jittered } from "../src/backoff.js";
import { encode } from "../src/encode.js";
import { isPassing, ProtocolError, Refused, type StatusCode } from "../src/errors.js";
import { letGo } from "../src/follow.js";
import { ResolveRequestSchema } from "../src/gen/abeyance/v1/resolve_service_pb.js";
import { DeferredToolResultsSchema } from "../src/gen/abeyance/v1/results_pb.js";
import {
  Detached_Reason,
  DetachedSchema,
  OutcomeSchema,
  Wait_State,
  type Outcome as WireOutcome,
} from "../src/gen/abeyance/v1/wait_pb.js";
import { WaitRequestSchema } from "../src/gen/abeyance/v1/wait_service_pb.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema, StatusSchema } from "../src/gen/google/rpc/details_pb.js";
import { refusal } from "../src/grpc.js";
import { AbeyanceClient, DeferredToolResults, Question } from "../src/index.js";
import { toJson } from "../src/json.js";
import { uuidv7, waitRequest } from "../src/options.js";
import { outcomeFromWire } from "../src/outcome.js";
import { questionFromWire, questionToWire } from "../src/question.js";
import { resultsFromWire, resultsToWire } from "../src/results.js";
import { aliveInterval, length, toDuration } from "../src/time.js";

test("delays double up to the cap and are spread over all of their bound", () => {
  const backoff = { baseMs: 250, capMs: 30_000 };
  const bounds = Array.from({ length: 9 }, (_, n) => bound(backoff, n));
  assert.deepEqual(bounds, [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  assert.equal(bound(backoff, 5000), 30_000);
  const delays = Array.from({ length: 2000 }, () => jittered(backoff, 7));
  assert.ok(delays.every((delay) => delay >= 0 && delay < 30_000));
  assert.ok(Math.min(...delays) < 1500 && Math.max(...delays) > 28_500);
});

test("a target is checked before anything connects", () => {
  for (const target of ["127.0.0.1:2239", "http://localhost:1", "[::1]:1", "http://[::1]:1/", "a.b:65535"]) {
    new AbeyanceClient(target);
  }
  const odd = ["https://a:1", "ftp://a:1", "http://a:1/b", "", "a b", "http://", "a:b", "unix:/x", "u@a:1"];
  for (const target of [
    ...odd,
    "localhost",
    "http://localhost",
    "[::1]",
    "a:0",
    "127.0.0.1:65536",
    "127.0.0.1:99999",
  ]) {
    assert.throws(() => new AbeyanceClient(target), TypeError, target);
  }
  for (const settings of [{ attachWindowMs: 3_600_001 }, { patienceMs: -1 }, { attemptTimeoutMs: Number.NaN }]) {
    assert.throws(() => new AbeyanceClient("a:1", settings), RangeError);
  }
});

test("only a clear verdict ends the trying", () => {
  const passing = (code: StatusCode) => isPassing({ code, message: "", metadata: {}, violations: [] });
  const cuts = [
    "CANCELLED",
    "UNKNOWN",
    "DEADLINE_EXCEEDED",
    "RESOURCE_EXHAUSTED",
    "ABORTED",
    "INTERNAL",
    "UNAVAILABLE",
  ];
  const codes = Object.keys(status).filter((name) => Number.isNaN(Number(name)) && name !== "OK") as StatusCode[];
  assert.deepEqual(codes.filter(passing).sort(), cuts.sort());
});

test("the details of a status are decoded, and what cannot be read is left out", () => {
  const details = [
    anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { reason: "INVALID_JSON", metadata: { wait_id: "w" } })),
    anyPack(
      BadRequestSchema,
      create(BadRequestSchema, { fieldViolations: [{ field: "payload_json", description: "line 1" }] }),
    ),
    anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay: toDuration(1500) })),
  ];
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from(toBinary(StatusSchema, create(StatusSchema, { details }))));
  const error = new Refused(refusal({ code: status.INVALID_ARGUMENT, details: "refused", metadata }));
  assert.deepEqual(
    [error.name, error.message, error.code, error.reason, error.metadata, error.violations, error.retryDelayMs],
    [
      "Refused",
      "refused (INVALID_JSON)",
      "INVALID_ARGUMENT",
      "INVALID_JSON",
      { wait_id: "w" },
      [{ field: "payload_json", description: "line 1" }],
      1500,
    ],
  );
  metadata.set("grpc-status-details-bin", Buffer.from([0xff]));
  const cut = refusal({ code: status.UNAVAILABLE, details: "", metadata });
  assert.deepEqual([cut.code, cut.message, cut.reason], ["UNAVAILABLE", "UNAVAILABLE", undefined]);
});

test("every open has its own request id and always says how long", () => {
  const [one, two] = [waitRequest("n", { key: "k" }), waitRequest("n", { key: "k" })];
  assert.match(one.requestId, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.notEqual(one.requestId, two.requestId);
  assert.deepEqual(one.spec, two.spec);
  assert.equal(one.spec?.expiry.case, "noTimeout");
  const [earlier, later] = [uuidv7(), uuidv7()];
  assert.ok(earlier.slice(0, 13) <= later.slice(0, 13));
  assert.equal(waitRequest("n", { requestId: "mine" }).requestId, "mine");
});

test("C16: sixty days stay sixty days, and lengths keep what they can", () => {
  const days = 60 * 86_400_000;
  const { expiry } = waitRequest("n", { timeoutMs: days }).spec ?? assert.fail();
  assert.equal(expiry.case === "timeout" && length(expiry.value), days);
  for (const ms of [0.001, 1, 999.999, 1000, 366 * 86_400_000]) {
    assert.equal(length(toDuration(ms)), ms);
  }
  for (const ms of [Number.POSITIVE_INFINITY, Number.NaN, 1e30, -5]) {
    assert.throws(() => toDuration(ms), RangeError, `${ms}`);
  }
  const { seconds, nanos } = toDuration(1999.9999999999);
  assert.deepEqual([seconds, nanos], [2n, 0]);
});

test("an answer is exact text, a value or decisions, and never nothing", () => {
  const json = (answer: Parameters<typeof resolveRequest>[1]) => resolveRequest("t", answer, {}).answer.value;
  assert.equal(json({ payloadJson: '{ "n": 9007199254740993 }' }), '{ "n": 9007199254740993 }');
  assert.equal(json({ value: null }), "null");
  assert.equal(json({ value: "5" }), '"5"');
  assert.throws(() => json({ value: undefined }), TypeError);
  assert.throws(() => json({ value: 1n }), /payloadJson/);
  for (const none of [{}, { payloadJson: 5 }, { results: {} }, { value: 1, payloadJson: "1" }] as never[]) {
    assert.throws(() => json(none), TypeError);
    assert.throws(() => new Answered(none), TypeError);
  }
});

test("a value is sent whole or not at all", () => {
  const shared = { a: [null, "x"] };
  const when = new Date(0);
  const value = {
    n: -0.5,
    shared,
    again: shared,
    when,
    o: new (class Order {
      id = 1;
    })(),
  };
  assert.equal(toJson(value), JSON.stringify(value));
  const faults: [unknown, RegExp][] = [
    [{ limits: [{ amount: Number.NaN }] }, /^overrideArgs\.limits\[0\]\.amount is NaN/],
    [{ "a b": Number.POSITIVE_INFINITY }, /^overrideArgs\["a b"\] is Infinity/],
    [{ limit: undefined }, /^overrideArgs\.limit is undefined/],
    [{ list: [1, undefined] }, /^overrideArgs\.list\[1\] is undefined/],
    [{ f: () => 1 }, /^overrideArgs\.f is a function/],
    [{ s: Symbol("s") }, /^overrideArgs\.s is a symbol/],
    [{ big: 1n }, /^overrideArgs\.big is a bigint.*overrideArgsJson/],
    [{ m: new Map([[1, 2]]) }, /^overrideArgs\.m is of type Map/],
    [{ m: new Set([1]) }, /^overrideArgs\.m is of type Set/],
    [{ m: new Error("e") }, /^overrideArgs\.m is of type Error/],
    [{ d: new Date(Number.NaN) }, /^overrideArgs\.d is an invalid Date/],
  ];
  for (const [args, message] of faults) {
    const approve = () => new DeferredToolResults().approve("a", args as Record<string, unknown>);
    assert.throws(approve, (error) => error instanceof TypeError && message.test(error.message), String(message));
  }
  for (const bad of [Number.NaN, new Map()]) {
    assert.throws(() => resolveRequest("t", { value: bad }, {}), TypeError);
    assert.throws(() => new DeferredToolResults().value("a", bad), TypeError);
    assert.throws(() => Question.free({ bad }), TypeError);
    const call = { toolCallId: "a", toolName: "t", kind: "approval", args: { bad } } as const;
    assert.throws(() => Question.toolCalls([call]), /^TypeError: args\.bad is /);
  }
});

test("text that would arrive as another one is not sent", () => {
  const sent = (key: string) =>
    encode(WaitRequestSchema, waitRequest("n", { key, labels: { "\u{1F600}": "\u{1F600}" } }));
  assert.equal(fromBinary(WaitRequestSchema, sent("\u{1F600}")).spec?.key, "\u{1F600}");
  assert.throws(
    () => sent("k\ud800"),
    (error) => error instanceof TypeError && /^spec\.key holds/.test(error.message),
  );
  for (const answer of [
    { payloadJson: '"\udc00"' },
    { results: new DeferredToolResults().approve("a\ud800") },
    { results: new DeferredToolResults().deny("a", "\ud800") },
  ]) {
    assert.throws(() => encode(ResolveRequestSchema, resolveRequest("t", answer, {})), TypeError);
  }
  for (const options of [{ key: "" }, { requestId: "" }]) {
    assert.throws(() => waitRequest("n", options), TypeError);
  }
});

test("only the end of a stream that lived is one that was planned, and a stream's period is one that a timer can keep", () => {
  const end = (reason: Detached_Reason, livedMs: number) => letGo(create(DetachedSchema, { reason }), livedMs).planned;
  assert.deepEqual(
    [end(Detached_Reason.LIFETIME, 5000), end(Detached_Reason.LIFETIME, 4999), end(Detached_Reason.DRAIN, 5000)],
    [true, false, false],
  );
  const period = (ms: number) => aliveInterval(toDuration(ms), 25_000);
  assert.deepEqual([period(0), period(1), period(1000), period(3e12)], [25_000, 10, 1000, 3_600_000]);
  const negative = { ...toDuration(0), seconds: -5n };
  assert.deepEqual([aliveInterval(negative, 25_000), aliveInterval(undefined, 7)], [25_000, 7]);
});

test("questions and decisions survive the wire", () => {
  for (const question of [
    Question.freeJson('{ "n": 1.0 }'),
    Question.form({ message: "How many?", payload: [1], schema: true }),
    Question.form({}),
    Question.toolCallsJson("{}", { mayLeavePending: true }),
    Question.toolCalls([
      { toolCallId: "a", toolName: "t", kind: "approval", args: { n: 1 }, description: "why" },
      { toolCallId: "b", toolName: "t", kind: "external", argsJson: '{"n":1.0}', metadataJson: "{}" },
      { toolCallId: "c", toolName: "t", kind: "question" },
    ]),
    { kind: "other" } as const,
  ]) {
    assert.deepEqual(questionFromWire(questionToWire(question)), question);
  }
  const results = new DeferredToolResults()
    .approve("a")
    .approve("b", { amount: 100 })
    .deny("c", "")
    .deny("d")
    .approval("e", { kind: "other" })
    .value("f", { kind: "tool-failed" })
    .result("g", { kind: "return", returnValueJson: "1.0", contentJson: '"seen"', tools: ["t"] })
    .failed("h", "broken")
    .retry("i", "again")
    .result("j", { kind: "other" });
  results.metadataJson.set("a", "{}");
  results.answeredBy.set("c", "alice");
  results.approve("__proto__").value("__proto__", 1).metadataJson.set("__proto__", "{}");
  const bytes = encode(DeferredToolResultsSchema, resultsToWire(results));
  assert.deepEqual(resultsFromWire(fromBinary(DeferredToolResultsSchema, bytes)), results);
  assert.deepEqual(
    ["a", "b", "c", "d", "e", "z"].map((id) => results.isApproved(id)),
    [true, true, false, false, false, false],
  );
  const rest = results.without("a");
  assert.ok(rest && !rest.approvals.has("a") && !rest.metadataJson.has("a") && rest.answeredBy.has("c"));
  assert.equal(rest.without("a"), undefined);
});

test("empty arguments are sent as what they are and not as none", () => {
  const sent = resultsToWire(new DeferredToolResults().approval("a", { kind: "approved", overrideArgsJson: "" }));
  const decision = sent.approvals.a?.decision;
  assert.ok(decision?.case === "approved" && decision.value.overrideArgsJson !== "");
});

test("an outcome that is not known is no answer", () => {
  const settleTime = timestampFromDate(new Date());
  const outcome = (state: Wait_State, result?: WireOutcome["result"]) =>
    outcomeFromWire(create(OutcomeSchema, { waitId: "w", settleTime, state, ...(result && { result }) }));
  assert.throws(() => outcome(Wait_State.RESOLVED), ProtocolError);
  const failed = { case: "failed", value: { reason: "r" } } as WireOutcome["result"];
  assert.throws(() => outcome(Wait_State.RESOLVED, failed), ProtocolError);
  assert.throws(() => outcome(Wait_State.UNSPECIFIED, failed), ProtocolError);
  assert.equal(outcome(Wait_State.FAILED, failed).state, "failed");
});

test("a client's settings hold no secret and are shown without noise", () => {
  assert.equal(inspect(new AbeyanceClient("a:1")), "AbeyanceClient {}");
});

test("a name that is not known is no option, and the one that was meant is named", async () => {
  const client = new AbeyanceClient("a:1");
  const call = { toolCallId: "c", toolName: "t", kind: "approval" };
  const odd: [() => unknown, RegExp][] = [
    [() => client.open("n", { timeout: 5 } as never), /"timeout" is not known; timeoutMs was probably meant/],
    [() => client.open("n", { heartbeat_timeout_ms: 5 } as never), /; heartbeatTimeoutMs was/],
    [() => client.wait("n", { lables: {} } as never), /; labels was/],
    [() => client.waitForExternalEvent("n", () => {}, { kye: "k" } as never), /; key was/],
    [() => client.requestInput("n", [], () => {}, { timout: 5 } as never), /; timeoutMs was/],
    [() => client.open("n", { colour: 5 } as never), /"colour" is not known; there are signal, key,/],
    [() => client.open("n", 5 as never), /must be an object, and is a number/],
    [() => client.resolve("t", { value: 1, answeredby: "a" } as never), /; answeredBy was/],
    [() => client.resolve("t", { value: 1 }, { signals: 1 } as never), /; signal was/],
    [() => client.resolve("t", 1 as never), /an answer is an object with value, payloadJson or results.* is number/],
    [() => client.approve("t", "c", { override_args: {} } as never), /; overrideArgs was/],
    [() => client.deny("t", "c", "no", { answered_by: "a" } as never), /; answeredBy was/],
    [() => client.fail("t", "r", { error_type: "E" } as never), /; errorType was/],
    [() => client.attach({ key: "k", nameSpace: "n" } as never), /; namespace was/],
    [() => client.describe("t", { sginal: 1 } as never), /; signal was/],
    [() => client.list({ pagesize: 5 } as never).next(), /; pageSize was/],
    [() => client.watch({ state: [] } as never).next(), /; states was/],
    [() => new AbeyanceClient("a:1", { patience: 5 } as never), /; patienceMs was/],
    [() => new AbeyanceClient("a:1", { backoff: { base: 5 } } as never), /; baseMs was/],
    [() => Question.form({ shema: {} } as never), /; schema was/],
    [() => Question.toolCalls([], { mayLeavepending: true } as never), /; mayLeavePending was/],
    [() => Question.toolCalls([{ ...call, arg: {} } as never]), /; args was/],
    [() => Question.toolCalls([{ ...call, kind: "aproval" } as never]), /"aproval" is not known; there are approval,/],
  ];
  for (const [use, message] of odd) {
    const given = async () => use();
    await assert.rejects(given, (error) => error instanceof TypeError && message.test(error.message), String(message));
  }
  await client.close();
});

test("what JSON would change is not written as decisions", () => {
  const results = () => new DeferredToolResults();
  const value = (json: string) => results().result("c", { kind: "value", json });
  for (const json of ["[1.0, -0.5, 1e3, 0.30000000000000004, 5e-324, 9007199254740991]", '"9007199254740993"']) {
    assert.deepEqual(JSON.parse(JSON.stringify(value(json))).calls.c, JSON.parse(json));
  }
  const binary = '{"kind": "tool-failed", "message": "m", "of": {"kind": "binary", "data": ""}}';
  for (const odd of [
    ...["9007199254740993", "1e400", "1e-400", "0.1234567890123456789", "{", binary].map(value),
    results().approval("c", { kind: "other" }),
    results().result("c", { kind: "other" }),
  ]) {
    assert.throws(
      () => JSON.stringify(odd),
      (error) => error instanceof TypeError && /resultsJson|send it as results/.test(error.message),
    );
  }
});
