// The client of Abeyance: open a wait, stay attached until its outcome, answer somebody else's.

export { type Answer, Answered, type AnswerOptions, type ExactAnswer } from "./answer.js";
export type { Backoff } from "./backoff.js";
export { AbeyanceClient, type DecisionOptions, type FailOptions } from "./client.js";
export {
  AbeyanceError,
  AskFailed,
  type ExpiryCause,
  ProtocolError,
  Refused,
  type StatusCode,
  Stopped,
  Unavailable,
  type Violation,
  WaitCancelled,
  WaitExpired,
  WaitFailed,
  WaitUnanswered,
} from "./errors.js";
export type { Ask, Ticket, ToolResults } from "./external.js";
export type { Filter, ListOptions, WatchEvent } from "./inbox.js";
export type { OpenOptions, SignalOption } from "./options.js";
export type { Cancelled, Expired, Failed, Outcome, Resolved } from "./outcome.js";
export { type CallKind, type NewToolCall, Question, type ToolCall } from "./question.js";
export { type Approval, type CallResult, DeferredToolResults } from "./results.js";
export type { Logger, Settings } from "./settings.js";
export type { State } from "./state.js";
export type { CallDecision, Decided, Decision, Opened, OpenedWait, Settled, TimeoutSource, WaitInfo } from "./types.js";
export type { Wait } from "./wait.js";
