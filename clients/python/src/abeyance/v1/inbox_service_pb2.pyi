import datetime

from abeyance.v1 import wait_pb2 as _wait_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WaitFilter(_message.Message):
    __slots__ = ("namespace", "states", "name", "labels", "min_age", "max_age")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    states: _containers.RepeatedScalarFieldContainer[_wait_pb2.Wait.State]
    name: str
    labels: _containers.ScalarMap[str, str]
    min_age: _duration_pb2.Duration
    max_age: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_wait_pb2.Wait.State, str]]] = ..., name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., min_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ListWaitsRequest(_message.Message):
    __slots__ = ("filter", "page_size", "page_token")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    filter: WaitFilter
    page_size: int
    page_token: str
    def __init__(self, filter: _Optional[_Union[WaitFilter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListWaitsResponse(_message.Message):
    __slots__ = ("waits", "next_page_token")
    WAITS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    waits: _containers.RepeatedCompositeFieldContainer[_wait_pb2.Wait]
    next_page_token: str
    def __init__(self, waits: _Optional[_Iterable[_Union[_wait_pb2.Wait, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetWaitRequest(_message.Message):
    __slots__ = ("wait_id",)
    WAIT_ID_FIELD_NUMBER: _ClassVar[int]
    wait_id: str
    def __init__(self, wait_id: _Optional[str] = ...) -> None: ...

class GetWaitResponse(_message.Message):
    __slots__ = ("wait",)
    WAIT_FIELD_NUMBER: _ClassVar[int]
    wait: _wait_pb2.Wait
    def __init__(self, wait: _Optional[_Union[_wait_pb2.Wait, _Mapping]] = ...) -> None: ...

class WatchWaitsRequest(_message.Message):
    __slots__ = ("filter",)
    FILTER_FIELD_NUMBER: _ClassVar[int]
    filter: WaitFilter
    def __init__(self, filter: _Optional[_Union[WaitFilter, _Mapping]] = ...) -> None: ...

class WatchWaitsResponse(_message.Message):
    __slots__ = ("wait", "synced", "alive", "detached")
    WAIT_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    wait: _wait_pb2.Wait
    synced: Synced
    alive: WatchAlive
    detached: _wait_pb2.Detached
    def __init__(self, wait: _Optional[_Union[_wait_pb2.Wait, _Mapping]] = ..., synced: _Optional[_Union[Synced, _Mapping]] = ..., alive: _Optional[_Union[WatchAlive, _Mapping]] = ..., detached: _Optional[_Union[_wait_pb2.Detached, _Mapping]] = ...) -> None: ...

class Synced(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchAlive(_message.Message):
    __slots__ = ("alive_interval",)
    ALIVE_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    alive_interval: _duration_pb2.Duration
    def __init__(self, alive_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...
