import datetime

from abeyance.v1 import results_pb2 as _results_pb2
from abeyance.v1 import wait_pb2 as _wait_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResolveRequest(_message.Message):
    __slots__ = ("token", "payload_json", "results", "request_id", "partial", "answered_by")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    token: str
    payload_json: str
    results: _results_pb2.DeferredToolResults
    request_id: str
    partial: bool
    answered_by: str
    def __init__(self, token: _Optional[str] = ..., payload_json: _Optional[str] = ..., results: _Optional[_Union[_results_pb2.DeferredToolResults, _Mapping]] = ..., request_id: _Optional[str] = ..., partial: bool = ..., answered_by: _Optional[str] = ...) -> None: ...

class ResolveResponse(_message.Message):
    __slots__ = ("wait_id", "state", "settle_time", "replayed", "answered_by", "progress")
    WAIT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SETTLE_TIME_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    wait_id: str
    state: _wait_pb2.Wait.State
    settle_time: _timestamp_pb2.Timestamp
    replayed: bool
    answered_by: str
    progress: _results_pb2.Progress
    def __init__(self, wait_id: _Optional[str] = ..., state: _Optional[_Union[_wait_pb2.Wait.State, str]] = ..., settle_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., replayed: bool = ..., answered_by: _Optional[str] = ..., progress: _Optional[_Union[_results_pb2.Progress, _Mapping]] = ...) -> None: ...

class FailRequest(_message.Message):
    __slots__ = ("token", "reason", "error_type", "details_json", "request_id")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_JSON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    token: str
    reason: str
    error_type: str
    details_json: str
    request_id: str
    def __init__(self, token: _Optional[str] = ..., reason: _Optional[str] = ..., error_type: _Optional[str] = ..., details_json: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class FailResponse(_message.Message):
    __slots__ = ("wait_id", "state", "settle_time", "replayed")
    WAIT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SETTLE_TIME_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    wait_id: str
    state: _wait_pb2.Wait.State
    settle_time: _timestamp_pb2.Timestamp
    replayed: bool
    def __init__(self, wait_id: _Optional[str] = ..., state: _Optional[_Union[_wait_pb2.Wait.State, str]] = ..., settle_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., replayed: bool = ...) -> None: ...

class DescribeWaitRequest(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class DescribeWaitResponse(_message.Message):
    __slots__ = ("wait",)
    WAIT_FIELD_NUMBER: _ClassVar[int]
    wait: _wait_pb2.Wait
    def __init__(self, wait: _Optional[_Union[_wait_pb2.Wait, _Mapping]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("heartbeat_expire_time",)
    HEARTBEAT_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    heartbeat_expire_time: _timestamp_pb2.Timestamp
    def __init__(self, heartbeat_expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
