from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_FIELD: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_JSON: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_DEADLINE: _ClassVar[ErrorReason]
    ERROR_REASON_MALFORMED_REQUEST: _ClassVar[ErrorReason]
    ERROR_REASON_REQUEST_ID_REUSED: _ClassVar[ErrorReason]
    ERROR_REASON_TOKEN_UNKNOWN: _ClassVar[ErrorReason]
    ERROR_REASON_WAIT_UNKNOWN: _ClassVar[ErrorReason]
    ERROR_REASON_WAIT_PURGED: _ClassVar[ErrorReason]
    ERROR_REASON_RECORD_MISSING: _ClassVar[ErrorReason]
    ERROR_REASON_KEY_CONFLICT: _ClassVar[ErrorReason]
    ERROR_REASON_ALREADY_SETTLED: _ClassVar[ErrorReason]
    ERROR_REASON_QUESTION_NOT_SET: _ClassVar[ErrorReason]
    ERROR_REASON_QUESTION_CONFLICT: _ClassVar[ErrorReason]
    ERROR_REASON_DEADLINE_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_SHUTTING_DOWN: _ClassVar[ErrorReason]
    ERROR_REASON_STORE_UNAVAILABLE: _ClassVar[ErrorReason]
    ERROR_REASON_OVERLOADED: _ClassVar[ErrorReason]
    ERROR_REASON_INTERNAL: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_ANSWER: _ClassVar[ErrorReason]
    ERROR_REASON_ALREADY_DECIDED: _ClassVar[ErrorReason]
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_INVALID_FIELD: ErrorReason
ERROR_REASON_INVALID_JSON: ErrorReason
ERROR_REASON_INVALID_DEADLINE: ErrorReason
ERROR_REASON_MALFORMED_REQUEST: ErrorReason
ERROR_REASON_REQUEST_ID_REUSED: ErrorReason
ERROR_REASON_TOKEN_UNKNOWN: ErrorReason
ERROR_REASON_WAIT_UNKNOWN: ErrorReason
ERROR_REASON_WAIT_PURGED: ErrorReason
ERROR_REASON_RECORD_MISSING: ErrorReason
ERROR_REASON_KEY_CONFLICT: ErrorReason
ERROR_REASON_ALREADY_SETTLED: ErrorReason
ERROR_REASON_QUESTION_NOT_SET: ErrorReason
ERROR_REASON_QUESTION_CONFLICT: ErrorReason
ERROR_REASON_DEADLINE_EXCEEDED: ErrorReason
ERROR_REASON_SHUTTING_DOWN: ErrorReason
ERROR_REASON_STORE_UNAVAILABLE: ErrorReason
ERROR_REASON_OVERLOADED: ErrorReason
ERROR_REASON_INTERNAL: ErrorReason
ERROR_REASON_INVALID_ANSWER: ErrorReason
ERROR_REASON_ALREADY_DECIDED: ErrorReason
