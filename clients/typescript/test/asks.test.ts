// Asking, and what becomes of it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import {
  type AbeyanceClient,
  Answered,
  AskFailed,
  DeferredToolResults,
  Question,
  Refused,
  type Ticket,
  WaitCancelled,
  WaitExpired,
  WaitFailed,
} from "../src/index.js";
import { Broker, clientOf, FaultProxy, rejection } from "./harness.js";

/** A promise and the way to fulfil it. */
function promised<T>() {
  let fulfil: (value: T) => void = () => {};
  const promise = new Promise<T>((resolve) => {
    fulfil = resolve;
  });
  return { promise, fulfil };
}

const CALLS = [
  { toolCallId: "call_1", toolName: "issue_refund", kind: "approval", args: { amount: 500 } },
  { toolCallId: "call_2", toolName: "ship", kind: "external", args: {} },
] as const;

test("the ask is handed a ticket, and the answer arrives as it was given", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const resolver = clientOf(t, broker.address);
  const ticket = promised<Ticket>();
  const answering = ticket.promise.then(async ({ token }) => {
    // Marked only when the ask is done.
    while ((await resolver.describe(token)).askTime === undefined) {}
    return resolver.resolve(token, { payloadJson: '{"n": 9007199254740993}', answeredBy: "alice" });
  });
  const answer = await client.waitForExternalEvent("refund", (given) => ticket.fulfil(given), {
    question: Question.free({ text: "Refund?" }),
    timeoutMs: 60_000,
  });
  assert.equal((await answering).replayed, false);
  assert.deepEqual(
    [answer.payloadJson, answer.value, answer.answeredBy],
    ['{"n": 9007199254740993}', { n: 9007199254740992 }, "alice"],
  );
  const { token } = await ticket.promise;
  const described = await resolver.describe(token);
  assert.deepEqual(described.question, { kind: "free", json: '{"text":"Refund?"}' });
  assert.equal(described.outcome?.state, "resolved");
});

test("no debug form and no JSON shows a token", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const wait = await client.wait("hidden", { key: "hidden" });
  const opened = await client.open("hidden", { key: "hidden" });
  assert.equal(opened.opened.token, wait.token);
  let shown = "";
  const error = await rejection(
    client.waitForExternalEvent(
      "hidden",
      (ticket) => {
        assert.equal(ticket.token, wait.token);
        shown += inspect(ticket, { depth: 9, showHidden: true }) + JSON.stringify(ticket) + String(ticket);
        throw new Error("no");
      },
      { key: "hidden" },
    ),
  );
  const refused = await rejection(client.resolve(wait.token, { payloadJson: "nonsense" }));
  const objects = [wait, opened, await client.describe(wait.token), client, error, refused];
  for (const object of objects) {
    shown += inspect(object, { depth: 9, showHidden: true }) + JSON.stringify(object) + String(object);
  }
  assert.ok(shown.includes(wait.waitId));
  // Any part of it that is long enough to be told from chance.
  for (let at = 0; at + 8 <= wait.token.length; at += 1) {
    assert.ok(!shown.includes(wait.token.slice(at, at + 8)));
  }
});

test("an outcome that arrives while the ask runs cuts it short", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const aborted = promised<void>();
  const answer = await client.waitForExternalEvent("cut-short", async (ticket) => {
    ticket.signal.addEventListener("abort", () => aborted.fulfil());
    await client.resolve(ticket.token, { value: 1 });
    // Never returns by itself.
    await new Promise(() => {});
  });
  assert.equal(answer.value, 1);
  await aborted.promise;
  assert.equal((await client.get(answer.waitId)).askTime, undefined);
});

test("an ask that knows the answer resolves like anybody else, and the recorded outcome counts", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const answer = await client.waitForExternalEvent(
    "knows",
    () => new Answered({ value: { ok: true }, answeredBy: "rule 7" }),
  );
  assert.deepEqual([answer.payloadJson, answer.answeredBy], ['{"ok":true}', "rule 7"]);
  const faster = await client.waitForExternalEvent("faster", async ({ token }) => {
    await client.resolve(token, { value: "theirs" });
    return new Answered({ value: "mine" });
  });
  assert.equal(faster.value, "theirs");
  const input = await client.requestInput("calls", CALLS, async ({ token }) => {
    await client.deny(token, "call_1", "No.", { answeredBy: "bob" });
    const results = new DeferredToolResults().approve("call_1").value("call_2", { status: "shipped" });
    return new Answered({ results });
  });
  assert.deepEqual(input.results.approvals.get("call_1"), { kind: "denied", message: "No." });
  assert.deepEqual(input.results.calls.get("call_2"), { kind: "value", json: '{"status":"shipped"}' });
  assert.equal(input.unanswered, undefined);
});

test("a failed ask cancels a wait without a key, and leaves one with a key open and not asked", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const tokens: string[] = [];
  const failing = (ticket: Ticket) => {
    tokens.push(ticket.token);
    throw new RangeError(`POST /send?token=${ticket.token} failed`);
  };
  const error = await rejection(client.waitForExternalEvent("fails", failing));
  assert.ok(error instanceof AskFailed && error.cause instanceof RangeError);
  // The error's own text may hold the token, as this one does.
  assert.equal(error.message, "the ask failed: RangeError");
  const cancelled = (await client.describe(tokens[0] ?? "")).outcome;
  assert.ok(cancelled?.state === "cancelled");
  assert.equal(cancelled.reason, "The ask failed.");

  assert.ok((await rejection(client.waitForExternalEvent("fails", failing, { key: "k" }))) instanceof AskFailed);
  const open = await client.describe(tokens[1] ?? "");
  assert.deepEqual([open.state, open.askTime], ["pending", undefined]);
  // Running again asks again, with the same token.
  const answer = await client.waitForExternalEvent(
    "fails",
    ({ token }) => {
      tokens.push(token);
      return new Answered({ value: 1 });
    },
    { key: "k" },
  );
  assert.equal(answer.value, 1);
  assert.equal(tokens[2], tokens[1]);

  const bad = await rejection(client.waitForExternalEvent("bad", () => new Answered({ payloadJson: "{" })));
  assert.ok(bad instanceof Refused && bad.reason === "INVALID_JSON", String(bad));
});

test("what an ask happens to return is no answer, and the ask has failed", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const chat = { send: async (): Promise<unknown> => ({ value: 51, done: false }) };
  for (const returned of [await chat.send(), { payloadJson: "1" }, { results: new DeferredToolResults() }, 0, ""]) {
    let token = "";
    const ask = (ticket: Ticket) => {
      token = ticket.token;
      return returned as undefined;
    };
    const error = await rejection(client.waitForExternalEvent("chat", ask));
    assert.ok(error instanceof AskFailed && error.cause === undefined, String(error));
    assert.match(error.message, /^the ask returned (Object|number|string); nothing is expected, or new Answered/);
    assert.equal((await client.describe(token)).state, "cancelled");
  }
  const nothing = client.waitForExternalEvent("chat", ({ token }) => {
    setImmediate(() => void client.resolve(token, { value: 1 }));
    return null;
  });
  assert.equal((await nothing).value, 1);
  const unfit = client.waitForExternalEvent("chat", () => new Answered({ value: { amount: Number.NaN } }));
  const error = await rejection(unfit);
  assert.ok(error instanceof AskFailed && error.cause instanceof TypeError);
});

test("an answer that was recorded before the ask failed counts", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const answer = await client.waitForExternalEvent("both", async ({ token, signal }) => {
    await client.resolve(token, { value: "recorded" });
    signal.throwIfAborted();
    throw new Error("too late");
  });
  assert.equal(answer.value, "recorded");
});

test("nobody is asked twice: not for a wait that was asked, not for one that is settled", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const never = () => assert.fail("asked again");
  const { opened } = await client.open("once", { key: "asked" });
  await client.markAsked(opened.token);
  const waiting = client.waitForExternalEvent("once", never, { key: "asked" });
  await client.resolve(opened.token, { value: 1 });
  assert.equal((await waiting).value, 1);
  const settled = await client.open("once", { key: "settled" });
  await client.resolve(settled.opened.token, { value: 2 });
  assert.equal((await client.waitForExternalEvent("once", never, { key: "settled" })).value, 2);
  const again = await client.open("once", { key: "settled" });
  assert.ok(again.outcome?.state === "resolved" && again.opened.resumed);
});

test("aborted, a wait with a key lives on and one without is cancelled", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const abort = async (key: string | undefined): Promise<string> => {
    const controller = new AbortController();
    let token = "";
    const waiting = client.waitForExternalEvent(
      "aborted",
      (ticket) => {
        token = ticket.token;
        setImmediate(() => controller.abort(new Error("enough")));
      },
      { key, signal: controller.signal },
    );
    assert.match(String(await rejection(waiting)), /enough/);
    return token;
  };
  assert.equal((await client.describe(await abort("k"))).state, "pending");
  const withdrawn = await client.describe(await abort(undefined));
  assert.equal(withdrawn.state, "cancelled");
  const early = client.waitForExternalEvent("early", () => assert.fail("asked"), { signal: AbortSignal.abort("now") });
  assert.equal(await rejection(early), "now");
});

test("aborted while it is being opened, a wait without a key is found and cancelled", async (t) => {
  const broker = await Broker.start(t);
  const proxy = await FaultProxy.start(t, broker.address);
  const client = clientOf(t, proxy.address);
  // The stream of waits has a connection of its own, whose answers are lost from now on; the call that withdraws has another.
  await (await client.wait("first")).detach();
  await proxy.command("freeze");
  const controller = new AbortController();
  const waiting = rejection(
    client.waitForExternalEvent("lost", () => assert.fail("asked"), { signal: controller.signal }),
  );
  const inbox = clientOf(t, broker.address);
  let state: string | undefined;
  for await (const event of inbox.watch({ name: "lost" })) {
    if (event.kind === "wait") {
      state = event.wait.state;
      if (state !== "pending") {
        break;
      }
      controller.abort("given up");
    }
  }
  assert.equal(state, "cancelled");
  assert.equal(await waiting, "given up");
});

test("each ending without an answer is an error of its own, and gives results for tool calls", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const failed = await rejection(
    client.waitForExternalEvent("ends", async ({ token }) => {
      await client.fail(token, "closed", { errorType: "Closed", detailsJson: "[1.0]" });
    }),
  );
  assert.ok(failed instanceof WaitFailed);
  assert.deepEqual([failed.reason, failed.errorType, failed.detailsJson], ["closed", "Closed", "[1.0]"]);
  const expired = await rejection(client.waitForExternalEvent("ends", () => {}, { timeoutMs: 100 }));
  assert.ok(expired instanceof WaitExpired && expired.expiry === "timeout");
  assert.equal(expired.message, "the wait expired: No resolution arrived within 0:00:00.100000.");
  const cancelled = await rejection(
    client.waitForExternalEvent("ends", async ({ token }) => void (await client.cancel(token, "not needed"))),
  );
  assert.ok(cancelled instanceof WaitCancelled && cancelled.reason === "not needed");

  const input = await client.requestInput("ends", CALLS, async ({ token }: Ticket) => {
    await client.approve(token, "call_1", { overrideArgs: { amount: 100 }, answeredBy: "alice" });
    await client.fail(token, "closed");
  });
  assert.ok(input.unanswered instanceof WaitFailed);
  assert.ok(input.results.isApproved("call_1"));
  const message = "No decision on this tool call arrived: closed";
  assert.deepEqual(input.results.calls.get("call_2"), { kind: "failed", message });
  assert.ok(input.resultsJson.includes('{"amount":100}'));
});

test("a heartbeat that stops ends a wait", async (t) => {
  const broker = await Broker.start(t);
  const client: AbeyanceClient = clientOf(t, broker.address);
  let until: Date | undefined;
  const error = await rejection(
    client.waitForExternalEvent(
      "beats",
      async ({ token }) => {
        await client.markAsked(token);
        until = await client.heartbeat(token);
      },
      { heartbeatTimeoutMs: 200 },
    ),
  );
  assert.ok(error instanceof WaitExpired && error.expiry === "heartbeat", String(error));
  assert.ok(until instanceof Date);
});

test("decisions as JSON are what was decided", async (t) => {
  const broker = await Broker.start(t);
  const client = clientOf(t, broker.address);
  const call = (toolCallId: string, kind: "approval" | "external") => ({ toolCallId, toolName: "t", kind });
  const decisions = new DeferredToolResults()
    .approve("a")
    .approve("b", { amount: 1.5 })
    .deny("c", "no")
    .deny("d")
    .value("e", { kind: "tool-failed", message: "data" })
    .value("f", { kind: "image-url", url: "u" })
    .value("g", [{ kind: "tool-failed" }])
    .result("h", { kind: "return", returnValueJson: "1", contentJson: '"seen"', metadataJson: "{}", tools: ["t"] })
    .failed("i", "broken")
    .retry("j", "again");
  decisions.metadataJson.set("a", '{"n":1}');
  decisions.answeredBy.set("b", "bob");
  const calls = [..."abcd"].map((id) => call(id, "approval")).concat([..."efghij"].map((id) => call(id, "external")));
  const got = await client.requestInput("json", calls, async ({ token }) => {
    await client.resolve(token, { payloadJson: JSON.stringify(decisions) });
  });
  // The broker writes out what the model is told by default.
  assert.deepEqual(got.results, decisions.deny("d", "The tool call was denied."));
  assert.deepEqual(JSON.parse(JSON.stringify(got)).results, JSON.parse(got.resultsJson));
});
