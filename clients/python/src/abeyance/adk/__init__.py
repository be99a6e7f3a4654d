"""Google ADK workflows that wait in Abeyance: any process answers what a workflow asks with `RequestInput`.

`InputWaits` runs a workflow, opens a wait for each `adk_request_input` call that the session's events leave open, and
resumes the workflow with the answers. Needs the extra `adk`: `pip install 'PATH[adk]'`, where PATH is the directory of
this package (google-adk 2.13 or newer, Python 3.11 or newer).
"""

from .._needs import extra

with extra("adk"):
    from .answers import function_response
    from .inputs import PendingInput, pending_inputs
    from .waits import Ask, InputWaits, Unanswered

__all__ = ["Ask", "InputWaits", "PendingInput", "Unanswered", "function_response", "pending_inputs"]
