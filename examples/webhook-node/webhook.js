// The webhook: what a chat calls when somebody presses a button.

import { createServer } from "node:http";

import { AbeyanceError, Unavailable } from "abeyance";

import { isGenuine } from "./signature.js";

const MAX_BODY_BYTES = 64 * 1024;

/** A chat shows an error to whoever pressed the button if it has no answer after 3 s. */
const ANSWER_WITHIN_MS = 2500;

/**
 * A server for buttons. `client` is an `AbeyanceClient`, `secret` is shared with the chat.
 *
 * The body is JSON: `token`, `user` and `action`: `approve` or `deny` with `tool_call_id`, or `answer` with `value`. The answer's `text` is for whoever
 * pressed the button.
 */
export function createWebhook({ client, secret }) {
  return createServer(async (request, response) => {
    const { status, ...reply } = await press(client, secret, request).catch((error) => {
      console.error("the webhook failed:", error);
      return { status: 500, text: "Something went wrong here. Nothing was recorded, or it was; press again." };
    });
    response.writeHead(status, {
      "content-type": "application/json",
      ...(status === 503 ? { "retry-after": "2" } : {}),
    });
    response.end(JSON.stringify(reply));
  });
}

async function press(client, secret, request) {
  const body = await read(request);
  if (body === undefined) {
    return { status: 413, text: "That is too long." };
  }
  // First of all: what is not signed is not even parsed.
  if (!isGenuine(secret, request.headers, body)) {
    return { status: 401, text: "The signature does not fit." };
  }
  let button;
  try {
    button = JSON.parse(body.toString("utf8"));
  } catch {
    return { status: 400, text: "The body is not JSON." };
  }
  try {
    const settled = await decide(client, button, AbortSignal.timeout(ANSWER_WITHIN_MS));
    return settled === undefined
      ? { status: 400, text: "The action must be approve, deny, or answer with a value." }
      : { status: 200, state: settled.state, text: accepted(settled, button) };
  } catch (error) {
    return refused(error);
  }
}

async function decide(client, { action, token, user, ...button }, signal) {
  switch (action) {
    case "approve":
      return client.approve(token, button.tool_call_id, {
        answeredBy: user,
        overrideArgs: button.override_args,
        signal,
      });
    case "deny":
      return client.deny(token, button.tool_call_id, button.message, { answeredBy: user, signal });
    case "answer":
      return "value" in button
        ? client.resolve(token, { value: button.value, answeredBy: user }, { signal })
        : undefined;
  }
}

function accepted(settled, { tool_call_id: call }) {
  const decision = settled.decided?.decisions.find(({ toolCallId }) => toolCallId === call);
  const by = decision?.answeredBy ?? settled.answeredBy;
  const who = by === undefined ? "" : ` by ${by}`;
  const left = settled.decided?.pendingCalls ?? 0;
  return `${settled.replayed ? "Already recorded" : "Recorded"}${who}.${left === 0 ? "" : ` ${left} still open.`}`;
}

/** What a refusal means for whoever pressed the button. */
function refused(error) {
  if (error instanceof Unavailable || error?.name === "TimeoutError") {
    // Safe: if the answer was recorded after all, the second press is a repeat.
    return { status: 503, text: "The broker cannot be reached. Press again in a moment." };
  }
  if (!(error instanceof AbeyanceError)) {
    throw error;
  }
  const { reason, metadata, violations } = error;
  switch (reason) {
    case "ALREADY_SETTLED":
      return {
        status: 409,
        reason,
        text: `Too late: it is ${metadata.state.toLowerCase()} since ${metadata.settle_time}.`,
      };
    case "ALREADY_DECIDED":
      return { status: 409, reason, text: `Somebody decided ${metadata.tool_call_id} otherwise.` };
    case "TOKEN_UNKNOWN":
    case "WAIT_PURGED":
      return { status: 404, reason, text: "There is nothing to decide here any more." };
    case "QUESTION_NOT_SET":
      return { status: 503, reason, text: "The question is not known yet. Press again in a moment." };
    default:
      return { status: 422, reason, text: error.message, faults: violations };
  }
}

async function read(request) {
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > MAX_BODY_BYTES) {
      return undefined;
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
