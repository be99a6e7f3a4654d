"""Addresses, questions, results and statuses, without a broker."""

from __future__ import annotations

import uuid
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2

from abeyance import (
    AbeyanceClient,
    Answered,
    CallKind,
    DeferredCalls,
    DeferredJson,
    Form,
    FreeJson,
    Refused,
    Results,
    ToolCall,
    Violation,
    v1,
)
from abeyance._convert import new_request_id
from abeyance.errors import refusal
from abeyance.question import question_from_message, question_message
from abeyance.results import forget


@pytest.mark.parametrize("target", ["127.0.0.1:2239", "http://localhost:1", "broker.internal:2239", "[::1]:1", "http://[::1]:1/"])
def test_addresses(target: str) -> None:
    AbeyanceClient(target)


@pytest.mark.parametrize("target", ["", "localhost", "http://a", "a:b", "a:1/path", "unix:///x", "http://u@a:1", "a:1?q"])
def test_what_is_no_address(target: str) -> None:
    with pytest.raises(ValueError, match="no address"):
        AbeyanceClient(target)


def test_tls_is_said_to_be_missing() -> None:
    with pytest.raises(ValueError, match="TLS is not supported yet"):
        AbeyanceClient("https://a:1")


@pytest.mark.parametrize(
    "question",
    [
        FreeJson({"n": 1.0}),
        FreeJson.text('{ "n": 1.0 }'),
        DeferredCalls([ToolCall("a", "t", "{}", CallKind.EXTERNAL, '{"m": 1}', "why")], may_leave_pending=True),
        Form(),
        Form("How many?", [1.0], {"type": "integer"}),
        Form("How many?", payload_json="[1.0]", response_schema_json="true"),
    ],
)
def test_questions_survive_the_wire(question: Any) -> None:
    assert question_from_message(question_message(question)) == question


def test_a_kind_that_is_not_known_stays_that() -> None:
    message = question_message(DeferredCalls([ToolCall("a", "t", "")]))
    message.deferred.calls[0].kind = 77  # type: ignore[assignment]
    read = question_from_message(message)
    assert isinstance(read, DeferredCalls)
    assert (read.calls[0].kind, read.calls[0].args_json) == (CallKind.OTHER, "null")
    assert read.approve_all().message == v1.DeferredToolResults()
    unknown = v1.Question()
    assert question_from_message(unknown) is unknown


def test_a_question_is_not_guessed() -> None:
    for guess in ("text", {"a": 1}, 5):
        with pytest.raises(TypeError, match="a question is"):
            question_message(guess)  # type: ignore[arg-type]
    message = question_message(DeferredJson("{}", may_leave_pending=True))
    assert question_message(message) is message
    assert message.deferred_json.may_leave_pending


def test_forms_take_a_value_or_its_text() -> None:
    with pytest.raises(ValueError, match="not both"):
        Form("", None, payload_json="null")
    assert Form("", None).payload_json == "null"
    assert Form("").payload_json is None


def test_all_means_all_that_wait_for_an_approval() -> None:
    calls = DeferredCalls(
        [ToolCall("a", "t"), ToolCall("b", "t", kind=CallKind.EXTERNAL), ToolCall("c", "t", kind=CallKind.QUESTION), ToolCall("d", "t")]
    )
    assert set(calls.approve_all().message.approvals) == {"a", "d"}
    denied = calls.deny_all("no").message
    assert {id: a.denied.message for id, a in denied.approvals.items()} == {"a": "no", "d": "no"}
    assert not denied.calls


def test_results() -> None:
    results = (
        Results()
        .deny("a", "no")
        .approve("a")
        .approve("b", {"n": 1.0})
        .deny("c")
        .deny("d", "")
        .value("e", None)
        .failed("f", "broken")
        .retry("g", "again")
        .metadata("a", {"m": 1})
        .answered_by("a", "alice")
    )
    message = results.message
    # The last word on a call counts.
    assert message.approvals["a"].WhichOneof("decision") == "approved"
    assert message.approvals["a"].approved.override_args_json == ""
    assert message.approvals["b"].approved.override_args_json == '{"n": 1.0}'
    assert not message.approvals["c"].denied.HasField("message")
    assert message.approvals["d"].denied.HasField("message")
    assert message.calls["e"].return_value_json == "null"
    assert (message.calls["f"].failed.message, message.calls["g"].retry.message) == ("broken", "again")
    assert repr(results) == "Results(['a', 'b', 'c', 'd', 'e', 'f', 'g'])"
    assert forget(message, "a")
    assert not forget(message, "a")
    assert not forget(message, "z")
    assert forget(message, "e")
    assert set(message.approvals) == {"b", "c", "d"}
    assert (len(message.metadata_json), len(message.answered_by)) == (0, 0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_does_not_have_is_refused_here(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        FreeJson(value)


def test_an_answer_is_given_in_one_way() -> None:
    wrongs: list[dict[str, Any]] = [{}, {"answer": 1, "payload_json": "1"}, {"payload_json": "1", "results": Results()}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="exactly one"):
            Answered(**wrong)
    assert Answered(None).payload_json == "null"
    assert "secret" not in repr(Answered("secret"))


def test_request_ids_are_ordered_uuids() -> None:
    ids = [uuid.UUID(new_request_id()) for _ in range(1000)]
    assert {(i.version, i.variant) for i in ids} == {(7, uuid.RFC_4122)}
    assert len(set(ids)) == 1000
    assert [i.int >> 80 for i in ids] == sorted(i.int >> 80 for i in ids)


def _status(*details: Any) -> grpc.aio.AioRpcError:
    status = status_pb2.Status(details=[_packed(d) for d in details])
    trailing = grpc.aio.Metadata(("grpc-status-details-bin", status.SerializeToString()))
    return grpc.aio.AioRpcError(grpc.StatusCode.INVALID_ARGUMENT, grpc.aio.Metadata(), trailing, "refused")


def _packed(detail: Any) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(detail)
    return packed


def test_details_of_a_status_are_decoded() -> None:
    violation = error_details_pb2.BadRequest.FieldViolation(field="payload_json", description="no value")
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(1500)
    error = refusal(
        _status(
            error_details_pb2.ErrorInfo(reason="INVALID_JSON", domain="abeyance.v1", metadata={"wait_id": "w"}),
            error_details_pb2.BadRequest(field_violations=[violation]),
            retry,
            error_details_pb2.Help(),
        )
    ).error(Refused)
    assert (error.code, error.reason, error.metadata) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_JSON", {"wait_id": "w"})
    assert (error.violations, error.retry_delay) == ((Violation("payload_json", "no value"),), 1.5)
    assert str(error) == "refused (INVALID_JSON)\n  payload_json: no value"


def test_one_fault_is_said_once() -> None:
    one = Violation("spec.timeout", "must be longer than zero")
    other = Violation("spec.name", "is empty")
    told = "spec.timeout: must be longer than zero"
    assert str(Refused(told, reason="INVALID_FIELD", violations=(one,))) == f"{told} (INVALID_FIELD)"
    both = str(Refused(f"{told}; and 1 more", reason="INVALID_FIELD", violations=(one, other)))
    assert both == f"{told}; and 1 more (INVALID_FIELD)\n  {told}\n  spec.name: is empty"


def test_details_that_cannot_be_read_take_nothing_away() -> None:
    trailing = grpc.aio.Metadata(("grpc-status-details-bin", b"\xff\xff"))
    error = refusal(grpc.aio.AioRpcError(grpc.StatusCode.NOT_FOUND, grpc.aio.Metadata(), trailing, None)).error(Refused)
    assert (error.code, error.reason, error.violations, str(error)) == (grpc.StatusCode.NOT_FOUND, None, (), "NOT_FOUND (NOT_FOUND)")
