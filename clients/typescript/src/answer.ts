import { create } from "@bufbuild/protobuf";

import { type ResolveRequest, ResolveRequestSchema } from "./gen/abeyance/v1/resolve_service_pb.js";
import { toJson } from "./json.js";
import { type DeferredToolResults, resultsToWire } from "./results.js";

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

/** The request that carries an answer. */
export function resolveRequest(token: string, answer: Answer, options: AnswerOptions): ResolveRequest {
  return create(ResolveRequestSchema, {
    token,
    answer: arm(answer),
    requestId: options.requestId ?? "",
    partial: options.partial ?? false,
    answeredBy: options.answeredBy ?? "",
  });
}

function arm(answer: Answer): ResolveRequest["answer"] {
  if ("results" in answer) {
    return { case: "results", value: resultsToWire(answer.results) };
  }
  return { case: "payloadJson", value: "payloadJson" in answer ? answer.payloadJson : toJson(answer.value) };
}
