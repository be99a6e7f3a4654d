// Who may press buttons: only whoever knows the shared secret, and only now.

import { createHmac, timingSafeEqual } from "node:crypto";

/** How old a request may be, in seconds. Older ones are replays. */
const MAX_AGE_SECONDS = 300;

/** What the sender puts into the header `x-signature`. */
export function sign(secret, timestamp, body) {
  return `v0=${createHmac("sha256", secret).update(`v0:${timestamp}:`).update(body).digest("hex")}`;
}

/** Whether the headers `x-timestamp` and `x-signature` belong to this body, and are fresh. */
export function isGenuine(secret, headers, body, nowSeconds = Date.now() / 1000) {
  const { "x-timestamp": timestamp, "x-signature": signature } = headers;
  if (!/^\d+$/.test(timestamp ?? "") || Math.abs(nowSeconds - Number(timestamp)) > MAX_AGE_SECONDS) {
    return false;
  }
  const expected = Buffer.from(sign(secret, timestamp, body));
  const given = Buffer.from(signature ?? "");
  return given.length === expected.length && timingSafeEqual(given, expected);
}
