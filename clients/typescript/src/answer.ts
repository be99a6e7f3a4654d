import { create } from "@bufbuild/protobuf";

import { type ResolveRequest, ResolveRequestSchema } from "./gen/abeyance/v1/resolve_service_pb.js";
import { toJson } from "./json.js";
import { checkNames, type Names } from "./keys.js";
import { DeferredToolResults, resultsToWire } from "./results.js";

/** An answer to a wait: a value, JSON text that is delivered byte for byte, or decisions on tool calls. */
export type Answer =
  | {
      /** The answer as a value, turned into JSON. `undefined` is no answer; `null` is one. */
      readonly value: unknown;
    }
  | {
      /**
       * The answer as JSON text. Use it for numbers that a double cannot hold. Tool calls are answered with the JSON form of
       * `DeferredToolResults`.
       */
      readonly payloadJson: string;
    }
  | {
      /** Decisions on tool calls. */
      readonly results: DeferredToolResults;
    };

/** An answer in which no value is left to turn into JSON. */
export type ExactAnswer = Exclude<Answer, { readonly value: unknown }>;

/** What a resolver may say beside its answer. */
export interface AnswerOptions {
  /**
   * Decides only those tool calls that the answer names, all of them or none, and leaves the wait open until the last one is decided. Refused
   * for questions that are not about tool calls. Default: false, the answer must decide every call that is not decided yet.
   */
  readonly partial?: boolean | undefined;
  /**
   * Who answers: up to 256 characters. For tool calls it stands for each call that the answer decides and names nobody for. Not part of the
   * answer: an equal answer by somebody else is a repeat. Default: not said.
   */
  readonly answeredBy?: string | undefined;
  /**
   * The resolver's own id for this answer: 1 to 128 characters. The broker refuses the same id with another answer. Not needed for a safe
   * repeat, since an equal answer is one. Default: none.
   */
  readonly requestId?: string | undefined;
}

/**
 * What an ask returns that knows the answer already: `new Answered({ value: true })`. It is recorded like anybody else's; if somebody was
 * faster, theirs counts. A class of its own, since what an ask happens to return, say the reply of a chat, must not become an answer.
 *
 * Throws a `TypeError` for what is no answer or has no JSON form. Neither `util.inspect` nor `JSON.stringify` shows the answer.
 */
export class Answered {
  readonly #answer: ExactAnswer;
  /** Who answers: up to 256 characters. `undefined`: not said. */
  readonly answeredBy: string | undefined;

  constructor(answer: Answer & Pick<AnswerOptions, "answeredBy">) {
    this.#answer = exact(answer);
    this.answeredBy = answer.answeredBy;
  }

  /** The answer: JSON text, or decisions on tool calls. */
  get answer(): ExactAnswer {
    return this.#answer;
  }
}

/** The request that carries an answer. */
export function resolveRequest(token: string, answer: Answer, options: AnswerOptions): ResolveRequest {
  return create(ResolveRequestSchema, {
    token,
    answer: toArm(exact(answer)),
    requestId: options.requestId ?? "",
    partial: options.partial ?? false,
    answeredBy: options.answeredBy ?? "",
  });
}

function toArm(answer: ExactAnswer): ResolveRequest["answer"] {
  return "results" in answer
    ? { case: "results", value: resultsToWire(answer.results) }
    : { case: "payloadJson", value: answer.payloadJson };
}

type KeyOf<T> = T extends unknown ? keyof T : never;
const ANSWER: Names<Record<KeyOf<Answer> | keyof AnswerOptions, unknown>> = {
  value: true,
  payloadJson: true,
  results: true,
  partial: true,
  answeredBy: true,
  requestId: true,
};

/** Checks an answer, since JavaScript does not. */
function exact(answer: Answer): ExactAnswer {
  if (typeof answer !== "object" || answer === null) {
    const what = answer === null ? "null" : typeof answer;
    throw new TypeError(
      `an answer is an object with value, payloadJson or results, as { value: true }, and is ${what}`,
    );
  }
  checkNames("the answer", answer, ANSWER);
  const { payloadJson, results } = answer as { payloadJson?: unknown; results?: unknown };
  const hasValue = "value" in answer;
  if (Number(hasValue) + Number(payloadJson !== undefined) + Number(results !== undefined) !== 1) {
    throw new TypeError("an answer is exactly one of value, payloadJson and results");
  }
  if (hasValue) {
    return { payloadJson: toJson(answer.value) };
  }
  if (results instanceof DeferredToolResults) {
    return { results };
  }
  if (typeof payloadJson === "string") {
    return { payloadJson };
  }
  throw new TypeError("payloadJson must be text, and results must be DeferredToolResults");
}
