"""Who is told of a change: a command, which reads it as JSON, or a webhook."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any

import urllib3

from owpc_ltr_keep.plan import KeepNotify

_SECONDS = 30.0


def notify(plan: KeepNotify, change: Mapping[str, Any]) -> str | None:
    """Tell of a change; why that failed, if it did: the work is done all the same."""
    content = json.dumps(change)
    try:
        if plan.command:
            subprocess.run(  # noqa: S603 - the plan's own command, without a shell
                plan.command, input=f"{content}\n".encode(), check=True, timeout=_SECONDS,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        if plan.webhook is not None:
            _post(plan.webhook, content)
    except (OSError, ValueError, subprocess.SubprocessError, urllib3.exceptions.HTTPError) as error:
        # Addresses of webhooks are secrets, and stand in some errors.
        return f"nobody was told: {type(error).__name__}"
    return None


def _post(variable: str, content: str) -> None:
    """Send JSON to the address in an environment variable, with `text` as chats want it."""
    address = os.environ.get(variable, "")
    if not address.startswith(("https://", "http://")):
        raise ValueError(variable)
    body = {"text": json.loads(content)["line"], **json.loads(content)}
    answer = urllib3.request("POST", address, json=body, timeout=_SECONDS, retries=False)
    if answer.status >= 300:
        raise OSError(answer.status)
