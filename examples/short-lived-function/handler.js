// A function in the manner of AWS Lambda: it opens a wait and returns; called again, it has the outcome or learns that there is none yet.

import { AbeyanceClient, Question } from "abeyance";

// Kept between two calls where the runtime keeps the process; made when the first call needs it. No stream is ever held.
const client = new AbeyanceClient(process.env.ABEYANCE_TARGET, { attemptTimeoutMs: 3000, patienceMs: 5000 });

/**
 * Refunds an order once somebody has approved it. Call it again, with the same event, until `status` is not `pending`: by a schedule, or from the
 * webhook that resolves.
 *
 * @param event `{ order, amount }`
 * @param context `{ notify }`: hands question and token to whoever can answer
 */
export async function handler({ order, amount }, { notify }) {
  // The key makes it the same wait each time. The question must be the same each time, too.
  const { opened, outcome } = await client.open("refund", {
    key: `refund/${order}`,
    timeoutMs: 7 * 24 * 3_600_000,
    question: Question.free({ order, amount }),
  });
  if (outcome !== undefined) {
    // A refund must be keyed on the wait id: this may run more than once.
    return outcome.state === "resolved" && outcome.value.approved === true
      ? { status: "refunded", order, amount, by: outcome.answeredBy }
      : { status: "not refunded", order, why: outcome.state === "resolved" ? "denied" : outcome.reason };
  }
  if (!opened.asked) {
    // If this process dies between the two, the next one asks again, with the same token: key the message on it.
    await notify({ token: opened.token, text: `Refund ${amount} for order ${order}?` });
    await client.markAsked(opened.token);
  }
  return { status: "pending", order, expires: opened.expireTime.toISOString() };
}
