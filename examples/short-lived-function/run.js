// Calls the function twice, with an answer in between: `npm start`, with a broker running.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { AbeyanceClient } from "abeyance";

const INVOKE = fileURLToPath(new URL("invoke.js", import.meta.url));
const event = JSON.stringify({ order: `order-${process.argv[2] ?? Date.now()}`, amount: 500 });

const folder = await mkdtemp(join(tmpdir(), "abeyance-function-"));
const outbox = join(folder, "outbox");
try {
  const invoke = async () => (await promisify(execFile)(process.execPath, [INVOKE, event, outbox])).stdout.trim();
  console.log(`first call   ${await invoke()}`);

  // Somebody finds the message, hours later.
  const [message] = (await readFile(outbox, "utf8"))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  console.log(`message      ${message.text}`);
  const client = new AbeyanceClient(process.env.ABEYANCE_TARGET);
  await client.resolve(message.token, { value: { approved: true }, answeredBy: "alice" });
  await client.close();

  console.log(`second call  ${await invoke()}`);
} finally {
  await rm(folder, { recursive: true, force: true });
}
