// The driver of the interop tests: tests/interop/README.md tells its protocol.

import { createInterface } from "node:readline";

import { create, fromJson, type JsonValue, toJson } from "@bufbuild/protobuf";
import { type ChannelOptions, Client, credentials } from "@grpc/grpc-js";
import { DeferredToolResultsSchema } from "../src/gen/abeyance/v1/results_pb.js";
import { QuestionSchema, WaitSpecSchema } from "../src/gen/abeyance/v1/wait_pb.js";
import {
  type WaitRequest,
  WaitRequestSchema,
  type WaitResponse,
  WaitService,
} from "../src/gen/abeyance/v1/wait_service_pb.js";
import { Cut, type MessageStream, serverStream } from "../src/grpc.js";
import {
  AbeyanceClient,
  AbeyanceError,
  type Opened,
  type OpenOptions,
  type Outcome,
  type Settled,
  type State,
  type Wait,
} from "../src/index.js";
import { outcomeFromWire } from "../src/outcome.js";
import { questionFromWire } from "../src/question.js";
import { resultsFromWire, resultsToWire } from "../src/results.js";
import { toDuration } from "../src/time.js";
import { Opened as OpenedFromWire } from "../src/types.js";

/** Longer than any test, and short enough for a timer of Node. */
const FOREVER_MS = 2 ** 31 - 1;

interface Request {
  readonly id: number;
  readonly op: string;
  readonly target: string;
  readonly [argument: string]: JsonValue | undefined;
}

/** A wait that is followed, by the client or by the stub alone. */
interface Followed {
  readonly outcome: () => Promise<Outcome>;
  readonly reattached: () => number;
}

const warnings: string[] = [];
const logger = { debug: () => {}, warn: (message: string) => void warnings.push(message) };
const clients = new Map<string, AbeyanceClient>();
const followed = new Map<string, Followed>();

function clientOf(target: string): AbeyanceClient {
  const client = clients.get(target) ?? new AbeyanceClient(target, { logger });
  clients.set(target, client);
  return client;
}

const text = (value: JsonValue | undefined): string => (typeof value === "string" ? value : "");
const optionalText = (value: JsonValue | undefined): string | undefined =>
  typeof value === "string" ? value : undefined;
const optionalNumber = (value: JsonValue | undefined): number | undefined =>
  typeof value === "number" ? value : undefined;
const upper = (state: State): string => state.toUpperCase();

type Answered = Record<string, JsonValue | undefined>;

const operations: Record<string, (client: AbeyanceClient, request: Request) => Promise<Answered>> = {
  async open(client, request) {
    const options: OpenOptions = {
      key: optionalText(request.key),
      timeoutMs: optionalNumber(request.timeout_ms),
      question:
        request.question === undefined ? undefined : questionFromWire(fromJson(QuestionSchema, request.question)),
      labels: request.labels as Record<string, string> | undefined,
    };
    return follow(await client.wait(text(request.name), options));
  },

  async outcome(_client, request) {
    const wait = followed.get(text(request.wait_id));
    if (wait === undefined) {
      throw new Error("no such wait was opened here");
    }
    const outcome = await wait.outcome();
    const { state, waitId, settleTime: _, results, resultsJson, ...ending } = { ...outcome };
    return {
      state: upper(state),
      reattached: wait.reattached(),
      results_json: resultsJson,
      results: results && toJson(DeferredToolResultsSchema, resultsToWire(results)),
      ...snakeCase(ending),
      ...("cause" in ending ? { cause: ending.cause.toUpperCase() } : {}),
    };
  },

  async mark_asked(client, request) {
    await client.markAsked(text(request.token));
    return {};
  },

  async cancel(client, request) {
    return { state: upper((await client.cancel(text(request.token), text(request.reason))).state) };
  },

  async resolve(client, request) {
    const options = {
      partial: request.partial === true,
      answeredBy: optionalText(request.answered_by),
      requestId: optionalText(request.request_id),
    };
    const answer =
      request.results === undefined
        ? { payloadJson: text(request.payload_json) }
        : { results: resultsFromWire(fromJson(DeferredToolResultsSchema, request.results)) };
    return settled(await client.resolve(text(request.token), { ...answer, ...options }));
  },

  async fail(client, request) {
    const options = { errorType: optionalText(request.error_type), detailsJson: optionalText(request.details_json) };
    return settled(await client.fail(text(request.token), text(request.reason), options));
  },

  async describe(client, request) {
    const wait = await client.describe(text(request.token));
    return {
      state: upper(wait.state),
      name: wait.name,
      timeout_ms: wait.timeoutMs,
      timeout_source: wait.timeoutSource.toUpperCase(),
    };
  },

  async by_deadline(_client, request) {
    const deadline = new Date(Date.now() + (optionalNumber(request.deadline_ms) ?? 0));
    const spec = create(WaitSpecSchema, { name: text(request.name) });
    return stub(request.target, {}, create(WaitRequestSchema, { spec }), deadline);
  },

  async hold(_client, request) {
    const timeout = toDuration(optionalNumber(request.timeout_ms) ?? 0);
    const spec = create(WaitSpecSchema, { name: text(request.name), expiry: { case: "timeout", value: timeout } });
    const options = {
      "grpc.keepalive_time_ms": optionalNumber(request.keepalive_ms) ?? 0,
      "grpc.keepalive_permit_without_calls": 1,
    };
    return stub(request.target, options, create(WaitRequestSchema, { spec }));
  },

  async crowd(client, request) {
    const name = text(request.name);
    const waits = await Promise.all(
      Array.from({ length: optionalNumber(request.count) ?? 0 }, () => client.wait(name, { timeoutMs: 300_000 })),
    );
    const last = waits.pop();
    if (last === undefined) {
      throw new Error("a crowd of none");
    }
    const begun = performance.now();
    await client.resolve(last.token, { value: true });
    const took = performance.now() - begun;
    await Promise.all(waits.map((wait) => client.cancel(wait.token)));
    await Promise.all([last, ...waits].map((wait) => wait.outcome()));
    return { resolve_ms: took };
  },

  async warnings() {
    return { warnings: warnings.splice(0) };
  },
};

function opened(wait: Opened): Answered {
  return {
    token: wait.token,
    wait_id: wait.waitId,
    asked: wait.asked,
    resumed: wait.resumed,
    timeout_ms: wait.timeoutMs,
    timeout_source: wait.timeoutSource.toUpperCase(),
  };
}

function follow(wait: Wait): Answered {
  followed.set(wait.waitId, { outcome: () => wait.outcome(), reattached: () => wait.reattached });
  return opened(wait.opened);
}

function settled(done: Settled): Answered {
  return { state: upper(done.state), replayed: done.replayed, answered_by: done.answeredBy };
}

/** Opens with the generated code and the stock library alone. */
async function stub(target: string, options: ChannelOptions, request: WaitRequest, deadline?: Date): Promise<Answered> {
  const channel = new Client(target, credentials.createInsecure(), { ...options, "grpc.use_local_subchannel_pool": 1 });
  const stream = serverStream(channel, WaitService.method.wait, request, deadline === undefined ? {} : { deadline });
  const first = (await stream.next(FOREVER_MS, "silence"))?.event?.event;
  if (first?.case !== "opened") {
    throw new Error("the stream did not begin with opened");
  }
  const wait = new OpenedFromWire(first.value);
  const outcome = outcomeOf(stream).finally(() => channel.close());
  outcome.catch(() => {});
  followed.set(wait.waitId, { outcome: () => outcome, reattached: () => 0 });
  return opened(wait);
}

async function outcomeOf(stream: MessageStream<WaitResponse>): Promise<Outcome> {
  for (;;) {
    const message = await stream.next(FOREVER_MS, "silence");
    if (message === undefined) {
      throw new Error("the stream was cut");
    }
    if (message.event?.event.case === "outcome") {
      return outcomeFromWire(message.event.event.value);
    }
  }
}

function snakeCase(properties: object): Answered {
  return Object.fromEntries(
    Object.entries(properties).map(([name, value]) => [name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`), value]),
  );
}

function failure(error: unknown): Record<string, unknown> {
  const said = error instanceof AbeyanceError ? error : error instanceof Cut ? error.refusal : undefined;
  if (said?.code === undefined) {
    return { code: "CLIENT", message: String(error) };
  }
  const { code, reason, message, metadata, violations } = said;
  return { code, reason, message, metadata, violations };
}

function write(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function serve(request: Request): Promise<void> {
  try {
    const operation = operations[request.op];
    if (operation === undefined) {
      throw new Error(`unknown op ${request.op}`);
    }
    write({ id: request.id, ok: await operation(clientOf(request.target), request) });
  } catch (error) {
    write({ id: request.id, error: failure(error) });
  }
}

write({ ready: { language: "typescript" } });
createInterface({ input: process.stdin })
  .on("line", (line) => void serve(JSON.parse(line) as Request))
  .on("close", () => process.stdout.write("", () => process.exit(0)));
