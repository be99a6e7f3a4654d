import datetime

from abeyance.v1 import wait_pb2 as _wait_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WaitRequest(_message.Message):
    __slots__ = ("spec", "request_id")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    spec: _wait_pb2.WaitSpec
    request_id: str
    def __init__(self, spec: _Optional[_Union[_wait_pb2.WaitSpec, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class WaitResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: _wait_pb2.WaitEvent
    def __init__(self, event: _Optional[_Union[_wait_pb2.WaitEvent, _Mapping]] = ...) -> None: ...

class OpenWaitRequest(_message.Message):
    __slots__ = ("spec", "request_id")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    spec: _wait_pb2.WaitSpec
    request_id: str
    def __init__(self, spec: _Optional[_Union[_wait_pb2.WaitSpec, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class OpenWaitResponse(_message.Message):
    __slots__ = ("opened", "outcome")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    opened: _wait_pb2.Opened
    outcome: _wait_pb2.Outcome
    def __init__(self, opened: _Optional[_Union[_wait_pb2.Opened, _Mapping]] = ..., outcome: _Optional[_Union[_wait_pb2.Outcome, _Mapping]] = ...) -> None: ...

class AttachRequest(_message.Message):
    __slots__ = ("token", "key")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    token: str
    key: WaitKey
    def __init__(self, token: _Optional[str] = ..., key: _Optional[_Union[WaitKey, _Mapping]] = ...) -> None: ...

class WaitKey(_message.Message):
    __slots__ = ("namespace", "key")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    key: str
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class AttachResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: _wait_pb2.WaitEvent
    def __init__(self, event: _Optional[_Union[_wait_pb2.WaitEvent, _Mapping]] = ...) -> None: ...

class SetQuestionRequest(_message.Message):
    __slots__ = ("token", "question")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    token: str
    question: _wait_pb2.Question
    def __init__(self, token: _Optional[str] = ..., question: _Optional[_Union[_wait_pb2.Question, _Mapping]] = ...) -> None: ...

class SetQuestionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MarkAskedRequest(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class MarkAskedResponse(_message.Message):
    __slots__ = ("ask_time",)
    ASK_TIME_FIELD_NUMBER: _ClassVar[int]
    ask_time: _timestamp_pb2.Timestamp
    def __init__(self, ask_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CancelWaitRequest(_message.Message):
    __slots__ = ("token", "reason")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    token: str
    reason: str
    def __init__(self, token: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CancelWaitResponse(_message.Message):
    __slots__ = ("outcome",)
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    outcome: _wait_pb2.Outcome
    def __init__(self, outcome: _Optional[_Union[_wait_pb2.Outcome, _Mapping]] = ...) -> None: ...
