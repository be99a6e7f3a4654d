import { randomBytes } from "node:crypto";

import { create } from "@bufbuild/protobuf";

import { WaitSpecSchema } from "./gen/abeyance/v1/wait_pb.js";
import { type WaitRequest, WaitRequestSchema } from "./gen/abeyance/v1/wait_service_pb.js";
import { checkNames, type Names } from "./keys.js";
import { type Question, questionToWire } from "./question.js";
import { toDuration } from "./time.js";

/** What every call takes. */
export interface SignalOption {
  /**
   * Gives the call up: it rejects with the signal's reason. What it asked for may have been carried out or not, and may be asked again.
   * Default: never.
   */
  readonly signal?: AbortSignal | undefined;
}

/**
 * What a worker may say when it opens a wait; nothing of it is required. The broker checks all of it: a value beyond its limits is refused with
 * the field's name.
 */
export interface OpenOptions extends SignalOption {
  /**
   * The worker's own name for the wait, unique in its namespace, 1 to 512 characters. Opening again with the same key, name and question gives
   * the same wait with the same token, whatever has become of it. A wait with a key outlives the process that opened it.
   */
  readonly key?: string | undefined;
  /** The namespace. Default: `default`. */
  readonly namespace?: string | undefined;
  /**
   * Expire the wait after so many milliseconds. Any length: it is the broker that counts, not a timer of Node. Default: as long as the broker
   * allows, 366 days unless it is set otherwise.
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Expire the wait when the answering side, once asked, sends no heartbeat for so many milliseconds. Default: none is demanded.
   */
  readonly heartbeatTimeoutMs?: number | undefined;
  /** What is asked. Shown to whoever answers. Default: nothing, and any JSON answers. */
  readonly question?: Question | undefined;
  /** The question comes later, by `setQuestion`; until then answers are refused. Default: false. */
  readonly questionLater?: boolean | undefined;
  /** Labels to find the wait by, at most 64. Default: none. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /**
   * Makes opening without a key safe to repeat: the same id, of 1 to 128 characters, gives the same wait. Default: a fresh UUIDv7, so that
   * the client itself may repeat the call.
   */
  readonly requestId?: string | undefined;
}

const SIGNAL: Names<SignalOption> = { signal: true };
const OPEN: Names<OpenOptions> = {
  signal: true,
  key: true,
  namespace: true,
  timeoutMs: true,
  heartbeatTimeoutMs: true,
  question: true,
  questionLater: true,
  labels: true,
  requestId: true,
};

/** Checks the options of a call that takes a signal alone, and gives them. */
export function signalOnly(options: SignalOption): SignalOption {
  checkNames("the options", options, SIGNAL);
  return { signal: options.signal };
}

/** The request for a wait, with an id that makes it safe to repeat. */
export function waitRequest(name: string, options: OpenOptions): WaitRequest {
  checkNames("the options", options, OPEN);
  const { timeoutMs, heartbeatTimeoutMs, question } = options;
  checkNotEmpty("key", options.key);
  checkNotEmpty("requestId", options.requestId);
  const spec = create(WaitSpecSchema, {
    name,
    key: options.key ?? "",
    namespace: options.namespace ?? "",
    // Always one of the two: a stream's deadline would become the timeout of a wait that says neither.
    expiry:
      timeoutMs === undefined ? { case: "noTimeout", value: true } : { case: "timeout", value: toDuration(timeoutMs) },
    questionLater: options.questionLater ?? false,
    labels: { ...options.labels },
  });
  if (heartbeatTimeoutMs !== undefined) {
    spec.heartbeatTimeout = toDuration(heartbeatTimeoutMs);
  }
  if (question !== undefined) {
    spec.question = questionToWire(question);
  }
  return create(WaitRequestSchema, { spec, requestId: options.requestId ?? uuidv7() });
}

/** Throws a `TypeError` for the empty text, in which the wire says "none": a worker that gives one means something. */
export function checkNotEmpty(name: string, text: string | undefined): void {
  if (text === "") {
    throw new TypeError(`${name} is empty; leave it out to have none`);
  }
}

/** A UUID that begins with the time, as the broker's own ids do. */
export function uuidv7(): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
