"""The page, as plain HTML: no script, nothing loaded from elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from abeyance import CallDecision, Decision, DeferredCalls, State, ToolCall, WaitInfo

from arguments import shown

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --good: #1a7f37; --bad: #cf222e; --accent: #0b5fff; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #ff7b72; --accent: #7aa7ff; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 46rem; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; margin: 0; }
header { display: flex; align-items: baseline; justify-content: space-between; gap: 1rem; }
a { color: var(--accent); }
article { border: 1px solid var(--line); border-radius: .75rem; margin: 1rem 0; overflow: hidden; }
article > p { margin: 0; padding: .6rem 1rem; background: var(--soft); font-size: .875rem; }
section { border-top: 1px solid var(--line); padding: 1rem; } section > :last-child { margin-bottom: 0; }
pre, code, textarea { font: .875rem/1.5 ui-monospace, monospace; }
pre { background: var(--soft); border-radius: .4rem; margin: .5rem 0; overflow: auto; padding: .5rem .75rem; }
label { display: block; font-size: .875rem; margin-top: .6rem; }
input, textarea { border: 1px solid var(--line); border-radius: .4rem; font-size: 1rem; padding: .4rem .6rem; width: 100%; }
textarea { min-height: 6rem; } summary { cursor: pointer; font-size: .875rem; margin-top: .6rem; }
.buttons { display: flex; gap: .6rem; margin-top: 1rem; }
button { border: 0; border-radius: .4rem; color: #fff; cursor: pointer; font: inherit; font-weight: 600; padding: .45rem 1.1rem; }
button[value=approve] { background: #1a7f37; } button[value=deny] { background: #cf222e; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.alert { border-left: 4px solid var(--bad); margin: .6rem 0; padding: .3rem .8rem; white-space: pre-wrap; }
.alert:focus { outline: 0; }
.good { color: var(--good); } .bad { color: var(--bad); } .good, .bad { font-weight: 600; }
.nothing { color: GrayText; padding: 2rem 0; text-align: center; }
"""

REFRESH = '<meta http-equiv="refresh" content="3">'


@dataclass(frozen=True)
class Shown:
    """An ask and what the broker says of its wait."""

    number: int
    run_id: str
    wait: WaitInfo


@dataclass(frozen=True)
class Unknown:
    """An ask of which the broker knows nothing, and why."""

    number: int
    run_id: str
    why: str


@dataclass(frozen=True)
class Problem:
    """Why a decision was not taken."""

    number: int
    call: str
    text: str | None
    """For people. `None` if somebody was faster."""
    arguments: str
    """What was typed, so that nobody types it again."""
    message: str


def html(asks: Sequence[Shown | Unknown], who: str, problem: Problem | None) -> str:
    """The page. `who` is the name that forms begin with."""
    known = [ask for ask in asks if isinstance(ask, Shown)]
    unknown = [ask for ask in asks if isinstance(ask, Unknown)]
    waiting = [ask for ask in known if ask.wait.state is State.PENDING]
    over = [ask for ask in known if ask.wait.state is not State.PENDING]
    # Only an empty page looks again by itself: a reload would take what somebody is typing.
    refresh = "" if waiting or problem else REFRESH
    cards = "".join(_ask(ask, who, problem) for ask in waiting) or '<p class="nothing">Nothing waits for you.</p>'
    past = f"<h2>Over</h2>{''.join(_ask(ask, who, problem) for ask in over)}" if over else ""
    alert = "".join(_late(ask.wait, problem) for ask in known if problem and problem.text is None and problem.number == ask.number)
    if problem and problem.text and problem.number in {ask.number for ask in unknown}:
        alert = _alert(f"Your decision was not recorded. {escape(problem.text)}")
    return _document(
        f"{refresh}<title>{len(waiting)} to decide</title>",
        '<header><h1>Approvals</h1><a href="/">Look again</a></header>'
        f"<main>{alert}<h2>To decide</h2>{cards}{past}{_unknown(unknown, unfolded=not waiting)}</main>",
    )


def failure(text: str, *, look_again: bool = False) -> str:
    """A page that has nothing but a sentence. With `look_again` it tries again by itself."""
    return _document(
        f"{REFRESH if look_again else ''}<title>Approvals</title>",
        f'<h1>Approvals</h1>{_alert(escape(text))}<a href="/">Back to the page</a>',
    )


def _late(wait: WaitInfo, problem: Problem) -> str:
    """Who was faster, and what is recorded."""
    calls = wait.question.calls if isinstance(wait.question, DeferredCalls) else ()
    tool = next((call.tool_name for call in calls if call.tool_call_id == problem.call), "this")
    decided = wait.decided.decisions if wait.decided else ()
    decision = next((decision for decision in decided if decision.tool_call_id == problem.call), None)
    if decision:
        done = "denied it" if decision.decision is Decision.DENIED else "approved it"
        if decision.decision is Decision.APPROVED_WITH_OVERRIDE:
            done += " with other arguments"
        why = f"{decision.answered_by or 'Somebody'} was faster and {done}, {decision.decide_time:%Y-%m-%d %H:%M} UTC. That stays."
    else:
        why = f"It was over before: {_ending(wait)}."
    return _alert(f"Your decision on <code>{escape(tool)}</code> was not recorded. {escape(why)}")


def _alert(inside: str) -> str:
    # It has the focus, so that the browser scrolls to it, wherever on the page it is.
    return f'<p class="alert" role="alert" tabindex="-1" autofocus>{inside}</p>'


def _unknown(asks: Sequence[Unknown], *, unfolded: bool) -> str:
    if not asks:
        return ""
    rows = "".join(f"<li>Run <strong>{escape(ask.run_id)}</strong>. {escape(ask.why)}</li>" for ask in asks)
    summary = f"<summary>{len(asks)} asked that this broker does not know</summary>"
    return f"<details{' open' if unfolded else ''}>{summary}<ul>{rows}</ul></details>"


def _ending(wait: WaitInfo) -> str:
    return wait.state.name.lower() + (f", {wait.outcome.reason}" if wait.outcome and wait.outcome.reason else "")


def _document(head: str, body: str) -> str:
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">{head}<style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'


def _ask(ask: Shown, who: str, problem: Problem | None) -> str:
    wait = ask.wait
    calls = wait.question.calls if isinstance(wait.question, DeferredCalls) else ()
    decided = {decision.tool_call_id: decision for decision in (wait.decided.decisions if wait.decided else ())}
    if wait.state is State.PENDING:
        state = f"{len(decided)} of {len(calls)} decided, open until {wait.expire_time:%Y-%m-%d %H:%M} UTC"
    else:
        state = escape(_ending(wait))
    sections = ""
    for index, call in enumerate(calls):
        # Call ids may be the same in two waits.
        at = f"{ask.number}-{index}"
        met = problem if problem and (problem.number, problem.call) == (ask.number, call.tool_call_id) else None
        alert = _alert(f"Not recorded. {escape(met.text)}") if met and met.text else ""
        sections += (
            f'<section aria-labelledby="tool-{at}"><h3 id="tool-{at}"><code>{escape(call.tool_name)}</code></h3>'
            f"{alert}{_call(ask, call, at, decided.get(call.tool_call_id), who, met)}</section>"
        )
    return f"<article><p>Run <strong>{escape(ask.run_id)}</strong> · {state}</p>{sections}</article>"


def _call(ask: Shown, call: ToolCall, at: str, decision: CallDecision | None, who: str, met: Problem | None) -> str:
    arguments = shown(call)
    asked = f"<pre>{escape(arguments)}</pre>"
    if decision:
        return asked + _decision(ask, decision)
    if ask.wait.state is not State.PENDING:
        return asked + '<p class="bad">Not decided, so denied</p>'
    tool = escape(call.tool_name)
    # The first button is the one that the Enter key presses: it does nothing, so that nobody decides by accident.
    return f"""{asked}<form method="post" action="/asks/{ask.number}">
<button disabled hidden></button>
<input type="hidden" name="call" value="{escape(call.tool_call_id)}">
<details{" open" if met and met.arguments != arguments else ""}><summary>Change the arguments</summary>
<label for="args-{at}">Arguments to run with instead</label>
<textarea id="args-{at}" name="arguments" spellcheck="false">
{escape(met.arguments if met else arguments)}</textarea></details>
<label for="message-{at}">Reason, told to the agent if you deny</label>
<input id="message-{at}" name="message" value="{escape(met.message if met else "")}">
<label for="who-{at}">Your name</label>
<input id="who-{at}" name="who" value="{escape(who)}" required maxlength="256" autocomplete="name">
<div class="buttons">
<button name="decision" value="approve" aria-label="Approve {tool}">Approve</button>
<button name="decision" value="deny" aria-label="Deny {tool}">Deny</button>
</div></form>"""


def _decision(ask: Shown, decision: CallDecision) -> str:
    by = f" by <strong>{escape(decision.answered_by)}</strong>" if decision.answered_by else ""
    at = f"{decision.decide_time:%Y-%m-%d %H:%M} UTC"
    outcome = ask.wait.outcome
    results = (outcome.results if outcome else None) or ask.wait.decisions
    approval = results.approvals[decision.tool_call_id] if results else None
    if decision.decision is Decision.DENIED:
        reason = f": {escape(approval.denied.message)}" if approval and approval.denied.message else ""
        return f'<p><span class="bad">Denied</span>{by}, {at}{reason}</p>'
    said = f'<p><span class="good">Approved</span>{by}, {at}'
    if approval and decision.decision is Decision.APPROVED_WITH_OVERRIDE:
        return f"{said}, with other arguments:</p><pre>{escape(approval.approved.override_args_json)}</pre>"
    return f"{said}</p>"
