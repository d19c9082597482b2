"""Where the command lies."""

import os
import shutil


def command():
    """Path of the command `lockstep`: LOCKSTEP_COMMAND, the wheel's, or the one in PATH."""
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native", "lockstep")
    path = os.environ.get("LOCKSTEP_COMMAND") or (
        inside if os.path.exists(inside) else shutil.which("lockstep")
    )
    if not path:
        raise FileNotFoundError("lockstep: the command is not in PATH; set LOCKSTEP_COMMAND to its file")
    return path
