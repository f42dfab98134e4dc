"""The informative part of an exception's message. The texts are TensorFlow 2.21's own."""

from __future__ import annotations

import pytest

from trials.trial import reason_of

KILLED = """Graph execution error:

Detected at node AssignVariableOp/_21 defined at (most recent call last):
<stack traces unavailable>
2 root error(s) found.
  (0) UNAVAILABLE:  Socket closed
Additional GRPC error information from remote target /job:worker/replica:0/task:0/device:CPU:0 while calling \
/tensorflow.eager.EagerService/RunComponentFunction:
:UNKNOWN:Error received from peer  {grpc_message:"Socket closed", grpc_status:14}
  (1) UNAVAILABLE:  Socket closed
\t [[{{node AssignVariableOp/_21}}]]
0 successful operations.
0 derived errors ignored. [Op:__inference__step_1069]"""

CANCELLED_FIRST = """Graph execution error:

Detected at node Read_1/ReadVariableOp/_57 defined at (most recent call last):
<stack traces unavailable>
2 root error(s) found.
  (0) CANCELLED:  RecvFromRemoteAsync is cancelled.
\t [[{{node Read_1/ReadVariableOp/_57}}]]
  (1) UNAVAILABLE:  recvmsg:Connection reset by peer
0 successful operations.
1 derived errors ignored. [Op:__inference__step_1082]"""

GATHER = """Graph execution error:

Detected at node GatherV2 defined at (most recent call last):
  File "model.py", line 12, in <module>

  File "model.py", line 5, in show

indices[0] = 7 is not in [0, 3)
\t [[{{node GatherV2}}]] [Op:__inference_b_26]"""

SHAPES = (
    "{{function_node __wrapped__AddV2_device_/job:localhost/replica:0/task:0/device:CPU:0}} "
    "Incompatible shapes: [3] vs. [4] [Op:AddV2] name: "
)

ENQUEUED = """recvmsg:Connection reset by peer
Additional GRPC error information from remote target /job:worker/replica:0/task:1/device:CPU:0 while calling \
/tensorflow.eager.EagerService/Enqueue:
:UNKNOWN:Error received from peer  {grpc_status:14} [Op:__inference__step_1069]"""


class UnavailableError(Exception):
    """An exception with the name of TensorFlow's."""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (KILLED, "Socket closed"),
        (CANCELLED_FIRST, "recvmsg:Connection reset by peer"),
        (GATHER, "indices[0] = 7 is not in [0, 3)"),
        (SHAPES, "Incompatible shapes: [3] vs. [4]"),
        (ENQUEUED, "recvmsg:Connection reset by peer"),
        ("Graph execution error:\n\nSocket closed", "Socket closed"),
        ("Graph execution error:", "no message"),
        ("", "no message"),
        ("plain\nand more", "plain"),
        ("1 root error(s) found.\n  (0) CANCELLED:  Cancelled by caller.", "Cancelled by caller."),
    ],
    ids=["killed", "cancelled-first", "gather", "shapes", "enqueued", "short", "bare", "empty", "plain", "cancelled"],
)
def test_the_first_line_that_says_something_is_the_reason(text: str, told: str) -> None:
    assert reason_of(UnavailableError(text)) == f"UnavailableError: {told}"


def test_a_reason_is_short_enough_for_a_table() -> None:
    assert len(reason_of(ValueError("x" * 5000))) == len("ValueError: ") + 300
