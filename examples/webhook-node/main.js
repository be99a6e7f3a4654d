import { AbeyanceClient } from "abeyance";

import { createWebhook } from "./webhook.js";

const { ABEYANCE_TARGET, WEBHOOK_SECRET, PORT = "8080" } = process.env;
if (!WEBHOOK_SECRET) {
  console.error("set WEBHOOK_SECRET to the secret that the chat signs with");
  process.exit(64);
}
// Tries of 1 s, so that one that is lost leaves time for another before whoever pressed the button must have an answer.
const client = new AbeyanceClient(ABEYANCE_TARGET, { attemptTimeoutMs: 1000, patienceMs: 2000 });
const server = createWebhook({ client, secret: WEBHOOK_SECRET });
server.listen(Number(PORT), "127.0.0.1", () => console.log(`listening on 127.0.0.1:${server.address().port}`));
