// One call of the function, in a process of its own, as the cloud makes it: `node invoke.js EVENT OUTBOX`. Prints what the function returns.

import { appendFile } from "node:fs/promises";

import { handler } from "./handler.js";

const [event, outbox] = process.argv.slice(2);
const notify = (message) => appendFile(outbox, `${JSON.stringify(message)}\n`);
console.log(JSON.stringify(await handler(JSON.parse(event), { notify })));
// Lambda freezes the process here; this one ends.
process.exit(0);
