"""The messages and stubs of the contract `abeyance.v1`, generated. Made by `generate.py`; do not edit."""

from abeyance.v1.error_reason_pb2 import *  # noqa: F403
from abeyance.v1.inbox_service_pb2 import *  # noqa: F403
from abeyance.v1.question_pb2 import *  # noqa: F403
from abeyance.v1.resolve_service_pb2 import *  # noqa: F403
from abeyance.v1.results_pb2 import *  # noqa: F403
from abeyance.v1.wait_pb2 import *  # noqa: F403
from abeyance.v1.wait_service_pb2 import *  # noqa: F403
from abeyance.v1.inbox_service_pb2_grpc import *  # noqa: F403
from abeyance.v1.resolve_service_pb2_grpc import *  # noqa: F403
from abeyance.v1.wait_service_pb2_grpc import *  # noqa: F403
