import datetime

from abeyance.v1 import question_pb2 as _question_pb2
from abeyance.v1 import results_pb2 as _results_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TimeoutSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TIMEOUT_SOURCE_UNSPECIFIED: _ClassVar[TimeoutSource]
    TIMEOUT_SOURCE_TIMEOUT: _ClassVar[TimeoutSource]
    TIMEOUT_SOURCE_DEADLINE: _ClassVar[TimeoutSource]
    TIMEOUT_SOURCE_SERVER_MAXIMUM: _ClassVar[TimeoutSource]
TIMEOUT_SOURCE_UNSPECIFIED: TimeoutSource
TIMEOUT_SOURCE_TIMEOUT: TimeoutSource
TIMEOUT_SOURCE_DEADLINE: TimeoutSource
TIMEOUT_SOURCE_SERVER_MAXIMUM: TimeoutSource

class Wait(_message.Message):
    __slots__ = ("wait_id", "namespace", "name", "key", "labels", "state", "create_time", "expire_time", "timeout", "timeout_source", "ask_time", "heartbeat_timeout", "heartbeat_expire_time", "settle_time", "question", "outcome", "progress", "decided")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[Wait.State]
        STATE_PENDING: _ClassVar[Wait.State]
        STATE_RESOLVED: _ClassVar[Wait.State]
        STATE_FAILED: _ClassVar[Wait.State]
        STATE_EXPIRED: _ClassVar[Wait.State]
        STATE_CANCELLED: _ClassVar[Wait.State]
    STATE_UNSPECIFIED: Wait.State
    STATE_PENDING: Wait.State
    STATE_RESOLVED: Wait.State
    STATE_FAILED: Wait.State
    STATE_EXPIRED: Wait.State
    STATE_CANCELLED: Wait.State
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WAIT_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SOURCE_FIELD_NUMBER: _ClassVar[int]
    ASK_TIME_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    SETTLE_TIME_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    DECIDED_FIELD_NUMBER: _ClassVar[int]
    wait_id: str
    namespace: str
    name: str
    key: str
    labels: _containers.ScalarMap[str, str]
    state: Wait.State
    create_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    timeout: _duration_pb2.Duration
    timeout_source: TimeoutSource
    ask_time: _timestamp_pb2.Timestamp
    heartbeat_timeout: _duration_pb2.Duration
    heartbeat_expire_time: _timestamp_pb2.Timestamp
    settle_time: _timestamp_pb2.Timestamp
    question: Question
    outcome: Outcome
    progress: _results_pb2.Progress
    decided: _results_pb2.DeferredToolResults
    def __init__(self, wait_id: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., key: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., state: _Optional[_Union[Wait.State, str]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., timeout_source: _Optional[_Union[TimeoutSource, str]] = ..., ask_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., heartbeat_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., heartbeat_expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., settle_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., question: _Optional[_Union[Question, _Mapping]] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ..., progress: _Optional[_Union[_results_pb2.Progress, _Mapping]] = ..., decided: _Optional[_Union[_results_pb2.DeferredToolResults, _Mapping]] = ...) -> None: ...

class WaitSpec(_message.Message):
    __slots__ = ("name", "key", "namespace", "timeout", "no_timeout", "heartbeat_timeout", "question", "question_later", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    NO_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    QUESTION_LATER_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    name: str
    key: str
    namespace: str
    timeout: _duration_pb2.Duration
    no_timeout: bool
    heartbeat_timeout: _duration_pb2.Duration
    question: Question
    question_later: bool
    labels: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., key: _Optional[str] = ..., namespace: _Optional[str] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., no_timeout: bool = ..., heartbeat_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., question: _Optional[_Union[Question, _Mapping]] = ..., question_later: bool = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Question(_message.Message):
    __slots__ = ("free_json", "deferred", "deferred_json", "form")
    FREE_JSON_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_JSON_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    free_json: str
    deferred: _question_pb2.DeferredToolRequests
    deferred_json: _question_pb2.DeferredToolRequestsJson
    form: _question_pb2.Form
    def __init__(self, free_json: _Optional[str] = ..., deferred: _Optional[_Union[_question_pb2.DeferredToolRequests, _Mapping]] = ..., deferred_json: _Optional[_Union[_question_pb2.DeferredToolRequestsJson, _Mapping]] = ..., form: _Optional[_Union[_question_pb2.Form, _Mapping]] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("wait_id", "state", "settle_time", "resolved", "failed", "expired", "cancelled", "results", "results_json")
    WAIT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SETTLE_TIME_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_JSON_FIELD_NUMBER: _ClassVar[int]
    wait_id: str
    state: Wait.State
    settle_time: _timestamp_pb2.Timestamp
    resolved: Resolved
    failed: Failed
    expired: Expired
    cancelled: Cancelled
    results: _results_pb2.DeferredToolResults
    results_json: str
    def __init__(self, wait_id: _Optional[str] = ..., state: _Optional[_Union[Wait.State, str]] = ..., settle_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., resolved: _Optional[_Union[Resolved, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., expired: _Optional[_Union[Expired, _Mapping]] = ..., cancelled: _Optional[_Union[Cancelled, _Mapping]] = ..., results: _Optional[_Union[_results_pb2.DeferredToolResults, _Mapping]] = ..., results_json: _Optional[str] = ...) -> None: ...

class Resolved(_message.Message):
    __slots__ = ("payload_json", "answered_by")
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    payload_json: str
    answered_by: str
    def __init__(self, payload_json: _Optional[str] = ..., answered_by: _Optional[str] = ...) -> None: ...

class Failed(_message.Message):
    __slots__ = ("reason", "error_type", "details_json")
    REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_JSON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    error_type: str
    details_json: str
    def __init__(self, reason: _Optional[str] = ..., error_type: _Optional[str] = ..., details_json: _Optional[str] = ...) -> None: ...

class Expired(_message.Message):
    __slots__ = ("cause", "reason")
    class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CAUSE_UNSPECIFIED: _ClassVar[Expired.Cause]
        CAUSE_TIMEOUT: _ClassVar[Expired.Cause]
        CAUSE_HEARTBEAT: _ClassVar[Expired.Cause]
    CAUSE_UNSPECIFIED: Expired.Cause
    CAUSE_TIMEOUT: Expired.Cause
    CAUSE_HEARTBEAT: Expired.Cause
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    cause: Expired.Cause
    reason: str
    def __init__(self, cause: _Optional[_Union[Expired.Cause, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class Cancelled(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class WaitEvent(_message.Message):
    __slots__ = ("opened", "alive", "progress", "outcome", "detached")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    opened: Opened
    alive: Alive
    progress: _results_pb2.Progress
    outcome: Outcome
    detached: Detached
    def __init__(self, opened: _Optional[_Union[Opened, _Mapping]] = ..., alive: _Optional[_Union[Alive, _Mapping]] = ..., progress: _Optional[_Union[_results_pb2.Progress, _Mapping]] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ..., detached: _Optional[_Union[Detached, _Mapping]] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ("token", "wait_id", "timeout", "timeout_source", "expire_time", "asked", "resumed", "alive_interval", "question_pending")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WAIT_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SOURCE_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    ALIVE_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    QUESTION_PENDING_FIELD_NUMBER: _ClassVar[int]
    token: str
    wait_id: str
    timeout: _duration_pb2.Duration
    timeout_source: TimeoutSource
    expire_time: _timestamp_pb2.Timestamp
    asked: bool
    resumed: bool
    alive_interval: _duration_pb2.Duration
    question_pending: bool
    def __init__(self, token: _Optional[str] = ..., wait_id: _Optional[str] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., timeout_source: _Optional[_Union[TimeoutSource, str]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., asked: bool = ..., resumed: bool = ..., alive_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., question_pending: bool = ...) -> None: ...

class Alive(_message.Message):
    __slots__ = ("time_left",)
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    time_left: _duration_pb2.Duration
    def __init__(self, time_left: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Detached(_message.Message):
    __slots__ = ("reason", "retry_delay")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REASON_UNSPECIFIED: _ClassVar[Detached.Reason]
        REASON_LIFETIME: _ClassVar[Detached.Reason]
        REASON_DRAIN: _ClassVar[Detached.Reason]
        REASON_LAGGED: _ClassVar[Detached.Reason]
    REASON_UNSPECIFIED: Detached.Reason
    REASON_LIFETIME: Detached.Reason
    REASON_DRAIN: Detached.Reason
    REASON_LAGGED: Detached.Reason
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    reason: Detached.Reason
    retry_delay: _duration_pb2.Duration
    def __init__(self, reason: _Optional[_Union[Detached.Reason, str]] = ..., retry_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...
