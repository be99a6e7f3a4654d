import type { status as Status } from "@grpc/grpc-js";

/** The name of a gRPC status code, for example `INVALID_ARGUMENT`. */
export type StatusCode = keyof typeof Status;

/** One fault of a request. */
export interface Violation {
  /**
   * The path of the field, as the contract names it, for example `spec.labels`. For `INVALID_ANSWER` the path in the answer, for example
   * `approvals["call_2"].override_args`.
   */
  readonly field: string;
  /** What is wrong with it. */
  readonly description: string;
}

/** What a status that is not OK says, with its details decoded. */
export interface Refusal {
  readonly code: StatusCode;
  readonly message: string;
  readonly reason?: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly Violation[];
  readonly retryDelayMs?: number;
}

/** What the client itself found out about a connection. */
export function localRefusal(code: StatusCode, message: string, retryDelayMs?: number): Refusal {
  return { code, message, metadata: {}, violations: [], ...(retryDelayMs === undefined ? {} : { retryDelayMs }) };
}

// The clear verdicts on a request. A mesh may cut a call with any status, so every other one is a cut.
const VERDICTS: ReadonlySet<StatusCode> = new Set([
  "INVALID_ARGUMENT",
  "NOT_FOUND",
  "FAILED_PRECONDITION",
  "ALREADY_EXISTS",
  "DATA_LOSS",
  "UNIMPLEMENTED",
  "UNAUTHENTICATED",
  "PERMISSION_DENIED",
  "OUT_OF_RANGE",
]);

/** Whether the same call may succeed when it is simply repeated. */
export function isPassing(refusal: Refusal): boolean {
  return !VERDICTS.has(refusal.code);
}

/** Why a broker was not reached, for people. */
export function unreached(refusal: Refusal): string {
  const said = `${refusal.message} (${refusal.reason ?? refusal.code})`;
  // Who gives a reason is there.
  return refusal.reason === undefined ? `${said}; is \`abeyance serve\` running there?` : said;
}

/** Why a call gave no result. One of {@link Refused}, {@link Unavailable}, {@link ProtocolError} and {@link Stopped}. */
export class AbeyanceError extends Error {
  static {
    AbeyanceError.prototype.name = "AbeyanceError";
  }

  /** The status code. `undefined` if the error arose in the client. */
  readonly code: StatusCode | undefined;
  /**
   * Why the broker refused: a name of `ErrorReason` without its prefix, for example `ALREADY_SETTLED`. `undefined` if the status did not
   * come from the broker, or if a proxy dropped its details. Expect names that you do not know, and go by `code` then.
   */
  readonly reason: string | undefined;
  /** The faults of the request, one by one. Empty where the status carries none. */
  readonly violations: readonly Violation[];
  /** More about the reason, for example `state` of `ALREADY_SETTLED`. Empty where the status carries none. */
  readonly metadata: Readonly<Record<string, string>>;
  /** How long the broker asks to wait before the call is repeated, in milliseconds. */
  readonly retryDelayMs: number | undefined;

  constructor(message: string, refusal?: Refusal) {
    super(message);
    this.code = refusal?.code;
    this.reason = refusal?.reason;
    this.violations = refusal?.violations ?? [];
    this.metadata = refusal?.metadata ?? {};
    this.retryDelayMs = refusal?.retryDelayMs;
  }
}

/**
 * The broker refused the call. Repeating it as it is gives the same refusal, unless `retryDelayMs` is set. What to do depends on `reason`;
 * among those that an answer meets:
 * - `INVALID_JSON`, `INVALID_FIELD`, `INVALID_ANSWER`: mend what `violations` name and send it again; the wait is as it was.
 * - `ALREADY_DECIDED`: somebody decided a tool call otherwise, and nothing of this answer was recorded. `metadata.tool_call_id` is the first
 *   such call. Answer without it; its decision stays.
 * - `ALREADY_SETTLED`: the wait has another outcome, which stays. Show whoever answered that they were late.
 * - `QUESTION_NOT_SET`: repeat it after `retryDelayMs`.
 */
export class Refused extends AbeyanceError {
  static {
    Refused.prototype.name = "Refused";
  }

  constructor(refusal: Refusal) {
    super(`${refusal.message} (${refusal.reason ?? refusal.code})`, refusal);
  }
}

/**
 * The broker could not be reached, or could not serve the call, for as long as the client's patience lasted. Repeating the call later is
 * safe: whether the last try was carried out or not is unknown, and does not matter.
 */
export class Unavailable extends AbeyanceError {
  static {
    Unavailable.prototype.name = "Unavailable";
  }

  /** Made by the client, which tried for `triedMs`. */
  constructor(refusal: Refusal, address: string, triedMs: number) {
    const tried = `tried for ${Math.round(triedMs / 100) / 10} s`;
    super(`the broker cannot be reached at ${address}, ${tried}: ${unreached(refusal)}`, refusal);
  }
}

/** The broker sent what the contract does not allow, or what this version of the client does not know. */
export class ProtocolError extends AbeyanceError {
  static {
    ProtocolError.prototype.name = "ProtocolError";
  }

  constructor(what: string) {
    super(`the broker's answer cannot be understood: ${what}`);
  }
}

/** The client was closed, or the wait was detached from. */
export class Stopped extends AbeyanceError {
  static {
    Stopped.prototype.name = "Stopped";
  }
}

/** A wait ended without an answer. One of {@link WaitFailed}, {@link WaitExpired} and {@link WaitCancelled}. */
export abstract class WaitUnanswered extends Error {
  /** The wait's public name. */
  readonly waitId: string;
  /** Why, for people. May be empty where a person gave it. */
  readonly reason: string;

  constructor(what: string, waitId: string, reason: string) {
    super(reason === "" ? what : `${what}: ${reason}`);
    this.waitId = waitId;
    this.reason = reason;
  }
}

/** The answering side ended the wait without an answer. */
export class WaitFailed extends WaitUnanswered {
  static {
    WaitFailed.prototype.name = "WaitFailed";
  }

  /** The resolver's name for the kind of failure, for programs. `undefined` if it gave none. */
  readonly errorType: string | undefined;
  /** More about it: JSON text, byte for byte. `undefined` if the resolver gave none. */
  readonly detailsJson: string | undefined;

  constructor(waitId: string, reason: string, errorType?: string, detailsJson?: string) {
    super("the wait failed", waitId, reason);
    this.errorType = errorType;
    this.detailsJson = detailsJson;
  }
}

/** Which clock of an expired wait ran out. `other`: one that this version of the client does not know. */
export type ExpiryCause = "timeout" | "heartbeat" | "other";

/** The wait's time ran out. */
export class WaitExpired extends WaitUnanswered {
  static {
    WaitExpired.prototype.name = "WaitExpired";
  }

  /** Which clock ran out. */
  readonly expiry: ExpiryCause;

  constructor(waitId: string, reason: string, expiry: ExpiryCause) {
    super("the wait expired", waitId, reason);
    this.expiry = expiry;
  }
}

/** The worker's side withdrew the wait. */
export class WaitCancelled extends WaitUnanswered {
  static {
    WaitCancelled.prototype.name = "WaitCancelled";
  }

  constructor(waitId: string, reason: string) {
    super("the wait was cancelled", waitId, reason);
  }
}

/**
 * The ask threw, or returned what is no {@link Answered}. The message names the kind of what it threw and nothing of its text, which may hold
 * the token; `cause` is all of it, so mind where you log that. A wait without a key was cancelled; one with a key is open and not asked, so
 * that running again asks again.
 */
export class AskFailed extends Error {
  static {
    AskFailed.prototype.name = "AskFailed";
  }

  /** The ask threw. */
  static threw(cause: unknown): AskFailed {
    return new AskFailed(`the ask failed: ${kindOf(cause)}`, { cause });
  }

  /** The ask returned what is no answer. */
  static returned(what: unknown): AskFailed {
    return new AskFailed(`the ask returned ${kindOf(what)}; nothing is expected, or new Answered(...)`);
  }
}

/** The name of a value's class or type. */
function kindOf(value: unknown): string {
  const prototype: unknown = typeof value === "object" && value !== null ? Object.getPrototypeOf(value) : undefined;
  const name: unknown = (prototype as { constructor?: { name?: unknown } } | null | undefined)?.constructor?.name;
  return typeof name === "string" && name !== "" ? name : typeof value;
}
