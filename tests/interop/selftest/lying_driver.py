#!/usr/bin/env python3
"""A driver that tells one lie: what an honest driver answers, with the answers to one operation changed.

lying_driver.py HONEST_DRIVER LIE
"""

import json
import subprocess
import sys
import threading
from typing import Any

from lies import LIES


def main() -> int:
    honest, name = sys.argv[1:]
    lie = LIES.get(name)
    driver = subprocess.Popen([honest], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    requests, answers = driver.stdin, driver.stdout
    assert requests is not None and answers is not None
    ops: dict[int, str] = {}
    speaking = threading.Lock()

    def say(line: dict[str, Any]) -> None:
        with speaking:
            sys.stdout.buffer.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            sys.stdout.buffer.flush()

    def pass_requests() -> None:
        for line in sys.stdin.buffer:
            request = json.loads(line)
            ops[request["id"]] = request["op"]
            if name in ("answers_at_once", "is_never_scolded") and request["op"] == "outcome":
                answer = {"id": request["id"]}
                LIES[name].change(answer)
                say(answer)
            else:
                requests.write(line)
                requests.flush()
        requests.close()

    threading.Thread(target=pass_requests, daemon=True).start()
    try:
        for line in answers:
            answer = json.loads(line)
            if lie is not None and ops.pop(answer.get("id", -1), None) == lie.op:
                lie.change(answer)
            say(answer)
        return driver.wait()
    finally:
        driver.kill()


if __name__ == "__main__":
    sys.exit(main())
