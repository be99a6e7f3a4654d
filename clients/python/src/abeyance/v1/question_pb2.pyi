from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeferredToolRequests(_message.Message):
    __slots__ = ("calls", "may_leave_pending")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    MAY_LEAVE_PENDING_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[DeferredToolCall]
    may_leave_pending: bool
    def __init__(self, calls: _Optional[_Iterable[_Union[DeferredToolCall, _Mapping]]] = ..., may_leave_pending: bool = ...) -> None: ...

class DeferredToolCall(_message.Message):
    __slots__ = ("tool_call_id", "tool_name", "args_json", "kind", "metadata_json", "description")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[DeferredToolCall.Kind]
        KIND_APPROVAL: _ClassVar[DeferredToolCall.Kind]
        KIND_EXTERNAL: _ClassVar[DeferredToolCall.Kind]
        KIND_QUESTION: _ClassVar[DeferredToolCall.Kind]
    KIND_UNSPECIFIED: DeferredToolCall.Kind
    KIND_APPROVAL: DeferredToolCall.Kind
    KIND_EXTERNAL: DeferredToolCall.Kind
    KIND_QUESTION: DeferredToolCall.Kind
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    ARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    tool_call_id: str
    tool_name: str
    args_json: str
    kind: DeferredToolCall.Kind
    metadata_json: str
    description: str
    def __init__(self, tool_call_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., args_json: _Optional[str] = ..., kind: _Optional[_Union[DeferredToolCall.Kind, str]] = ..., metadata_json: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class DeferredToolRequestsJson(_message.Message):
    __slots__ = ("requests_json", "may_leave_pending")
    REQUESTS_JSON_FIELD_NUMBER: _ClassVar[int]
    MAY_LEAVE_PENDING_FIELD_NUMBER: _ClassVar[int]
    requests_json: str
    may_leave_pending: bool
    def __init__(self, requests_json: _Optional[str] = ..., may_leave_pending: bool = ...) -> None: ...

class Form(_message.Message):
    __slots__ = ("message", "payload_json", "response_schema_json")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    message: str
    payload_json: str
    response_schema_json: str
    def __init__(self, message: _Optional[str] = ..., payload_json: _Optional[str] = ..., response_schema_json: _Optional[str] = ...) -> None: ...
