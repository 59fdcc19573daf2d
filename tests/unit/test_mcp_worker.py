"""The process that does one call of a tool of kerncap-mcp: one line in, one line out."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import manifest_examples
import pytest
from stores import manifest, publish_memory, random_bytes

from kerncap_stages.manifests import dump


@pytest.fixture
def call(store):
    """Do one call with the test's store; returns its answer."""

    def do(tool, **arguments):
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "kerncap_stages.compat.mcp_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "KERNCAP_STORE": str(store.root)},
        ) as worker:
            worker.stdin.write(json.dumps({"tool": tool, "arguments": arguments}) + "\n")
            worker.stdin.flush()
            # The input stays open until then: its end would interrupt the call.
            return json.loads(worker.stdout.readline())

    return do


def test_an_artifact_is_shown_as_it_is_stored(store, call):
    with store.begin_transaction() as transaction:
        payload = dump(manifest_examples.profile())
        digest = transaction.publish(payload, "profile")
    assert call("show_artifact", artifact="@profile") == {
        "result": {"digest": digest, "manifest": json.loads(payload)}
    }


def test_what_is_no_readable_artifact_is_told_as_such_and_not_as_a_bug(store, call):
    _, memory = publish_memory(store, random_bytes(10))
    with store.begin_transaction() as transaction:
        file = transaction.put_bytes(b"\xff")
        newer = transaction.publish(manifest("profile", schema_version=99), "profile")
    wrong = ((memory, "not a manifest"), (file, "not a manifest"), (newer, "schema version 99"))
    for artifact, says in wrong:
        answer = call("show_artifact", artifact=artifact)
        assert says in answer["error"]
        assert "bug" not in answer["hint"]
