import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeferredToolResults(_message.Message):
    __slots__ = ("approvals", "calls", "metadata_json", "answered_by")
    class ApprovalsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ToolApproval
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ToolApproval, _Mapping]] = ...) -> None: ...
    class CallsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ToolCallResult
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ToolCallResult, _Mapping]] = ...) -> None: ...
    class MetadataJsonEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AnsweredByEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    approvals: _containers.MessageMap[str, ToolApproval]
    calls: _containers.MessageMap[str, ToolCallResult]
    metadata_json: _containers.ScalarMap[str, str]
    answered_by: _containers.ScalarMap[str, str]
    def __init__(self, approvals: _Optional[_Mapping[str, ToolApproval]] = ..., calls: _Optional[_Mapping[str, ToolCallResult]] = ..., metadata_json: _Optional[_Mapping[str, str]] = ..., answered_by: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ToolApproval(_message.Message):
    __slots__ = ("approved", "denied")
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    approved: ToolApproved
    denied: ToolDenied
    def __init__(self, approved: _Optional[_Union[ToolApproved, _Mapping]] = ..., denied: _Optional[_Union[ToolDenied, _Mapping]] = ...) -> None: ...

class ToolApproved(_message.Message):
    __slots__ = ("override_args_json",)
    OVERRIDE_ARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    override_args_json: str
    def __init__(self, override_args_json: _Optional[str] = ...) -> None: ...

class ToolDenied(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: str
    def __init__(self, message: _Optional[str] = ...) -> None: ...

class ToolCallResult(_message.Message):
    __slots__ = ("return_value_json", "tool_return", "failed", "retry")
    RETURN_VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    TOOL_RETURN_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    return_value_json: str
    tool_return: ToolReturn
    failed: ToolFailed
    retry: ModelRetry
    def __init__(self, return_value_json: _Optional[str] = ..., tool_return: _Optional[_Union[ToolReturn, _Mapping]] = ..., failed: _Optional[_Union[ToolFailed, _Mapping]] = ..., retry: _Optional[_Union[ModelRetry, _Mapping]] = ...) -> None: ...

class ToolReturn(_message.Message):
    __slots__ = ("return_value_json", "content_json", "metadata_json", "tools", "content_file_digests_json")
    RETURN_VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    CONTENT_JSON_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FILE_DIGESTS_JSON_FIELD_NUMBER: _ClassVar[int]
    return_value_json: str
    content_json: str
    metadata_json: str
    tools: _containers.RepeatedScalarFieldContainer[str]
    content_file_digests_json: str
    def __init__(self, return_value_json: _Optional[str] = ..., content_json: _Optional[str] = ..., metadata_json: _Optional[str] = ..., tools: _Optional[_Iterable[str]] = ..., content_file_digests_json: _Optional[str] = ...) -> None: ...

class ToolFailed(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: str
    def __init__(self, message: _Optional[str] = ...) -> None: ...

class ModelRetry(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: str
    def __init__(self, message: _Optional[str] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("decided", "decided_calls", "pending_calls")
    DECIDED_FIELD_NUMBER: _ClassVar[int]
    DECIDED_CALLS_FIELD_NUMBER: _ClassVar[int]
    PENDING_CALLS_FIELD_NUMBER: _ClassVar[int]
    decided: _containers.RepeatedCompositeFieldContainer[CallDecision]
    decided_calls: int
    pending_calls: int
    def __init__(self, decided: _Optional[_Iterable[_Union[CallDecision, _Mapping]]] = ..., decided_calls: _Optional[int] = ..., pending_calls: _Optional[int] = ...) -> None: ...

class CallDecision(_message.Message):
    __slots__ = ("tool_call_id", "decision", "answered_by", "decide_time")
    class Decision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DECISION_UNSPECIFIED: _ClassVar[CallDecision.Decision]
        DECISION_APPROVED: _ClassVar[CallDecision.Decision]
        DECISION_APPROVED_WITH_OVERRIDE: _ClassVar[CallDecision.Decision]
        DECISION_DENIED: _ClassVar[CallDecision.Decision]
        DECISION_RETURNED: _ClassVar[CallDecision.Decision]
        DECISION_FAILED: _ClassVar[CallDecision.Decision]
        DECISION_RETRY: _ClassVar[CallDecision.Decision]
    DECISION_UNSPECIFIED: CallDecision.Decision
    DECISION_APPROVED: CallDecision.Decision
    DECISION_APPROVED_WITH_OVERRIDE: CallDecision.Decision
    DECISION_DENIED: CallDecision.Decision
    DECISION_RETURNED: CallDecision.Decision
    DECISION_FAILED: CallDecision.Decision
    DECISION_RETRY: CallDecision.Decision
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    DECIDE_TIME_FIELD_NUMBER: _ClassVar[int]
    tool_call_id: str
    decision: CallDecision.Decision
    answered_by: str
    decide_time: _timestamp_pb2.Timestamp
    def __init__(self, tool_call_id: _Optional[str] = ..., decision: _Optional[_Union[CallDecision.Decision, str]] = ..., answered_by: _Optional[str] = ..., decide_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
