#!/usr/bin/env python3
"""parity_s3.py LOCKSTEP: a run in a bucket of moto, a server from PyPI that answers as Amazon S3 does and
here checks every signature. Two steps on one
disk, the others from an empty one: the weights are those of a run in a folder. Keys that are wrong are
refused.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time

import boto3
import moto

RECIPE = """run: {name: run}
model: {type: mlp, hidden: [6000]}
data: {type: shapes}
train: {epochs: 1, steps: 4, global_batch: 8}
eval: {every_epochs: -1}
threads: 1
"""
SETUP_CALLS = 4  # of the four calls below that make the keys, which moto takes unsigned


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make_keys(endpoint):
    unsigned = dict(
        endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y"
    )
    iam = boto3.client("iam", **unsigned)
    iam.create_user(UserName="trainer")
    key = iam.create_access_key(UserName="trainer")["AccessKey"]
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    iam.put_user_policy(UserName="trainer", PolicyName="all", PolicyDocument=json.dumps(everything))
    boto3.client("s3", **unsigned).create_bucket(Bucket="bucket")
    return key["AccessKeyId"], key["SecretAccessKey"]


def check_version():
    """S3 signs the value of a query with `/` as %2F (and the path of an object with `/` as it is), as botocore
    and lockstep do. Older servers of moto decode the query before they check the signature, and refuse
    every list of a folder."""
    version = tuple(int(part) for part in moto.__version__.split(".")[:3])
    assert version >= (5, 2, 4), f"moto {moto.__version__} checks other signatures than S3: moto>=5.2.4 is needed"


def main():
    check_version()
    lockstep, port = os.path.abspath(sys.argv[1]), free_port()
    endpoint = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(SETUP_CALLS)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert server.poll() is None, "moto does not start"
            time.sleep(0.1)
        key, secret = make_keys(endpoint)
        with tempfile.TemporaryDirectory() as work:
            check(
                lockstep,
                work,
                {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret},
            )
    finally:
        server.kill()
    print(
        "s3       a run in a bucket of moto, signed; from an empty disk the same weights; wrong keys refused"
    )


def check(lockstep, work, keys):
    with open(f"{work}/run.yaml", "w") as f:
        f.write(RECIPE)

    def train(disk, *words, **changed):
        env = {**os.environ, **keys, **changed, "LOCKSTEP_CACHE": f"{work}/{disk}"}
        return subprocess.run(
            [lockstep, "train", "run.yaml", *words], cwd=work, env=env, capture_output=True, text=True
        )

    bucket = ("--set", "run.storage='s3://bucket/my runs & more'")
    for words in (("first", *bucket, "--set", "train.steps=2"), ("second", *bucket), ("first",)):
        done = train(*words)
        assert done.returncode == 0, done.stderr
    model = "run/checkpoints/latest/model.safetensors"
    with open(f"{work}/runs/{model}", "rb") as a, open(
        f"{work}/second/storage/bucket/my runs & more/{model}", "rb"
    ) as b:
        assert a.read() == b.read(), "other weights"
    wrong = train("third", *bucket, AWS_SECRET_ACCESS_KEY="wrong")
    assert wrong.returncode == 2 and "SignatureDoesNotMatch" in wrong.stderr, wrong.stderr


if __name__ == "__main__":
    main()
