// What a wait is, as clients see it.

import { ProtocolError } from "./errors.js";
import type { FailResponse, ResolveResponse } from "./gen/abeyance/v1/resolve_service_pb.js";
import {
  type CallDecision as WireCallDecision,
  CallDecision_Decision as WireDecision,
  type Progress as WireProgress,
} from "./gen/abeyance/v1/results_pb.js";
import {
  type Opened as WireOpened,
  TimeoutSource as WireTimeoutSource,
  type Wait as WireWait,
} from "./gen/abeyance/v1/wait_pb.js";
import { defined, filled } from "./json.js";
import { type Outcome, outcomeFromWire } from "./outcome.js";
import { type Question, questionFromWire } from "./question.js";
import { type DeferredToolResults, resultsFromWire } from "./results.js";
import { type State, stateFromWire } from "./state.js";
import { length, optionalTime, time } from "./time.js";

/**
 * Where the effective timeout of a wait came from: the worker gave it, it was the deadline of the call that opened the wait (this client
 * never opens one so), or it is the broker's maximum. `other`: a source that this version of the client does not know.
 */
export type TimeoutSource = "timeout" | "deadline" | "server_maximum" | "other";

/** What a wait was when it was opened or attached to. Neither `util.inspect` nor `JSON.stringify` shows the token. */
export class Opened {
  readonly #token: string;
  /** The wait's public name. Not a secret: safe in logs, lists and links. */
  readonly waitId: string;
  /** The effective timeout of the wait in milliseconds, counted from when it was created. */
  readonly timeoutMs: number;
  /** Where the timeout came from. */
  readonly timeoutSource: TimeoutSource;
  /** When the wait expires, by the broker's clock. */
  readonly expireTime: Date;
  /** Question and token were handed on already: do not ask again. */
  readonly asked: boolean;
  /**
   * The wait was there before this call. Always true after an attach. True after an open that was tried again because its first reply was
   * lost, too.
   */
  readonly resumed: boolean;
  /** The wait was opened with `questionLater` and its question is not set yet. */
  readonly questionPending: boolean;

  constructor(wire: WireOpened) {
    if (wire.token === "" || wire.waitId === "") {
      throw new ProtocolError("opened without token or wait id");
    }
    this.#token = wire.token;
    this.waitId = wire.waitId;
    this.timeoutMs = length(wire.timeout);
    this.timeoutSource = timeoutSource(wire.timeoutSource);
    this.expireTime = time("opened.expire_time", wire.expireTime);
    this.asked = wire.asked;
    this.resumed = wire.resumed;
    this.questionPending = wire.questionPending;
  }

  /** The bearer credential of this wait. A secret: whoever holds it can answer. Never log it. */
  get token(): string {
    return this.#token;
  }
}

/** A wait that was opened without staying attached. */
export interface OpenedWait {
  /** The wait as it was then, with its token. */
  readonly opened: Opened;
  /** Its outcome, if it was opened before and is settled. */
  readonly outcome?: Outcome;
}

/** What was decided about a tool call. `other`: something that this version of the client does not know. */
export type Decision = "approved" | "approved_with_override" | "denied" | "returned" | "failed" | "retry" | "other";

/** The decision on one tool call, without what was sent with it. */
export interface CallDecision {
  /** The call's id. */
  readonly toolCallId: string;
  /** What was decided. */
  readonly decision: Decision;
  /** Who decided, as the resolver claimed. */
  readonly answeredBy?: string;
  /** When it was recorded, by the broker's clock. */
  readonly decideTime: Date;
}

/** Which of a wait's tool calls are decided so far. It only grows: a decision stays. */
export interface Decided {
  /** The calls that are decided, in the order in which they were. Empty in lists and in watches, which show the two numbers alone. */
  readonly decisions: readonly CallDecision[];
  /** How many calls are decided. */
  readonly decidedCalls: number;
  /** How many calls are not decided yet. */
  readonly pendingCalls: number;
}

/** What an accepted answer or failure did. */
export interface Settled {
  /** The wait's public name. */
  readonly waitId: string;
  /**
   * What has become of the wait. Pending after a partial answer that left calls undecided; after a repeat of one, whatever became of the
   * wait since.
   */
  readonly state: State;
  /** When the wait was settled, by the broker's clock: for a repeat, the first time. Absent while it is pending. */
  readonly settleTime?: Date;
  /** The same was recorded before. Also true where the client itself had to repeat the call. */
  readonly replayed: boolean;
  /** Who gave the answer that is recorded: for a repeat, whoever was first. Absent if nobody was named, and for tool calls. */
  readonly answeredBy?: string;
  /** For tool calls: what is decided by now, and by whom. For a repeat, by whoever was first. */
  readonly decided?: Decided;
}

/** A wait, as it is shown to whoever may look at it. */
export interface WaitInfo {
  /** The wait's public name. */
  readonly waitId: string;
  /** The namespace it was opened in. */
  readonly namespace: string;
  /** What kind of wait this is. */
  readonly name: string;
  /** The worker's own key. */
  readonly key?: string;
  /** The worker's labels. */
  readonly labels: Readonly<Record<string, string>>;
  /** What has become of it. */
  readonly state: State;
  /** When it was opened. */
  readonly createTime: Date;
  /** When it expires, or would have expired. */
  readonly expireTime: Date;
  /** The time it was given at open, in milliseconds. */
  readonly timeoutMs: number;
  /** Where the timeout came from. */
  readonly timeoutSource: TimeoutSource;
  /** When question and token were handed on. */
  readonly askTime?: Date;
  /** How long the answering side may stay silent once asked, in milliseconds. */
  readonly heartbeatTimeoutMs?: number;
  /** When the heartbeat timeout runs out unless a heartbeat arrives. */
  readonly heartbeatExpireTime?: Date;
  /** When its outcome was recorded. */
  readonly settleTime?: Date;
  /** What is asked. Absent in lists and watches, and where there is no question. */
  readonly question?: Question;
  /** The outcome. Absent while pending, and in lists and watches. */
  readonly outcome?: Outcome;
  /** Which tool calls were decided, by whom and when. Absent for other questions; in lists and watches also once it is settled. */
  readonly decided?: Decided;
  /**
   * What is decided of the tool calls while the wait is pending. Absent for other questions, where nothing is decided yet, once it is settled
   * (then the outcome has it), and in lists and watches.
   */
  readonly decisions?: DeferredToolResults;
}

const TIMEOUT_SOURCES: ReadonlyMap<WireTimeoutSource, TimeoutSource> = new Map([
  [WireTimeoutSource.TIMEOUT, "timeout"],
  [WireTimeoutSource.DEADLINE, "deadline"],
  [WireTimeoutSource.SERVER_MAXIMUM, "server_maximum"],
]);

function timeoutSource(wire: WireTimeoutSource): TimeoutSource {
  return TIMEOUT_SOURCES.get(wire) ?? "other";
}

const DECISIONS: ReadonlyMap<WireDecision, Decision> = new Map([
  [WireDecision.APPROVED, "approved"],
  [WireDecision.APPROVED_WITH_OVERRIDE, "approved_with_override"],
  [WireDecision.DENIED, "denied"],
  [WireDecision.RETURNED, "returned"],
  [WireDecision.FAILED, "failed"],
  [WireDecision.RETRY, "retry"],
]);

/** What is decided, from the wire. */
export function decidedFromWire(wire: WireProgress): Decided {
  return {
    decisions: wire.decided.map(callDecision),
    decidedCalls: wire.decidedCalls,
    pendingCalls: wire.pendingCalls,
  };
}

function callDecision(wire: WireCallDecision): CallDecision {
  return {
    toolCallId: wire.toolCallId,
    decision: DECISIONS.get(wire.decision) ?? "other",
    decideTime: time("decided.decide_time", wire.decideTime),
    ...defined({ answeredBy: filled(wire.answeredBy) }),
  };
}

/** What an answer or a failure did, from the wire. */
export function settledFromWire(wire: ResolveResponse | FailResponse): Settled {
  const state = stateFromWire(wire.state);
  const answered = wire.$typeName === "abeyance.v1.ResolveResponse" ? wire : undefined;
  return {
    waitId: wire.waitId,
    state,
    replayed: wire.replayed,
    ...defined({
      settleTime: state === "pending" ? undefined : time("settle_time", wire.settleTime),
      answeredBy: answered && filled(answered.answeredBy),
      decided: answered?.progress && decidedFromWire(answered.progress),
    }),
  };
}

/** A wait from the wire. */
export function infoFromWire(wire: WireWait | undefined): WaitInfo {
  if (wire === undefined) {
    throw new ProtocolError("a response without its wait");
  }
  return {
    waitId: wire.waitId,
    namespace: wire.namespace,
    name: wire.name,
    labels: wire.labels,
    state: stateFromWire(wire.state),
    createTime: time("wait.create_time", wire.createTime),
    expireTime: time("wait.expire_time", wire.expireTime),
    timeoutMs: length(wire.timeout),
    timeoutSource: timeoutSource(wire.timeoutSource),
    ...defined({
      key: filled(wire.key),
      askTime: optionalTime(wire.askTime),
      heartbeatTimeoutMs: wire.heartbeatTimeout && length(wire.heartbeatTimeout),
      heartbeatExpireTime: optionalTime(wire.heartbeatExpireTime),
      settleTime: optionalTime(wire.settleTime),
      question: wire.question && questionFromWire(wire.question),
      outcome: wire.outcome && outcomeFromWire(wire.outcome),
      decided: wire.progress && decidedFromWire(wire.progress),
      decisions: wire.decided && resultsFromWire(wire.decided),
    }),
  };
}
