"""Texts made the same from run to run."""

from __future__ import annotations

import math

import pytest
from made_up import outcome

from canishard.launch import normalise
from canishard.launch.outcome import Attempt, RankEvidence, Status

GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:544]"
TEXTS = [
    # Ports and hosts; a C++ file's line is no port.
    (
        f"{GLOO} Connection closed by peer [127.0.0.1]:9108",
        f"{GLOO} Connection closed by peer [127.0.0.1]:<port>",
    ),
    (f"{GLOO} Read error [192.168.70.92]:25266: reset", f"{GLOO} Read error [<host>]:<port>: reset"),
    ("no connection to [node-17.example]:29500", "no connection to [<host>]:<port>"),
    ("to localhost:29500 or 10.0.0.7:29500", "to localhost:<port> or <host>:<port>"),
    ("listening on port 41234", "listening on port <port>"),
    ("x[0]:1, [rank 0]: ok", "x[0]:1, [rank 0]: ok"),
    # Processes, threads and addresses; small numbers in hex stay.
    ("worker (pid: 4242) and pid=17", "worker (pid: <id>) and pid=<id>"),
    ("process 4242 died, process 3 did not", "process <id> died, process 3 did not"),
    ("Thread 0x00007f3a5e7fc700 (most recent call first):", "Thread <address> (most recent call first):"),
    ("ident 140245838427968, flags 0x1f", "ident <id>, flags 0x1f"),
    ("0.140245838427968 and -9223372036854775808", "0.140245838427968 and -9223372036854775808"),
    # Paths.
    (
        '  File "/home/me/.nox/checks/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1751, in f',
        '  File "<site-packages>/torch/nn/modules/module.py", line 1751, in f',
    ),
    ('File "/srv/main/src/canishard/checks/pp.py", line 3', 'File "<canishard>/checks/pp.py", line 3'),
    ('File "/v/lib/python3.11/site-packages/canishard/check.py"', 'File "<canishard>/check.py"'),
    ('File "/opt/uv/lib/python3.11/multiprocessing/x.py"', 'File "<python>/multiprocessing/x.py"'),
    ("No such file: '/tmp/case-x1/ckpt/__0_0.distcp'", "No such file: '<tmp>/__0_0.distcp'"),
    ("in /tmp/case-x1/ckpt, and /tmp/tmpab12cd", "in <tmp>, and <tmp>"),
    ("/private/var/folders/zz/T/tmpx/.metadata", "<tmp>/.metadata"),
    ("read /home/me/data/x and /root/y", "read <home>/data/x and <home>/y"),
    ("[../third_party/gloo/gloo/x.cc:534] said", "[../third_party/gloo/gloo/x.cc:534] said"),
    # Dates and durations.
    ("[W1130 21:43:12.123456789 socket.cpp:752] said", "[W<date> socket.cpp:752] said"),
    ("[rank0]:[E930 15:36:27.105 x.cpp:1] said", "[rank0]:[E<date> x.cpp:1] said"),
    ("I1130 21:43:12.123456 4242 file.cc:12] said", "I<date> file.cc:12] said"),
    ("2026-11-30 21:43:12,123 INFO and 2026-11-30T21:43:12Z", "<date> INFO and <date>"),
    ("Timed out waiting 1799999ms for recv", "Timed out waiting <time> for recv"),
    ("took 3.02 s, 4 minutes, 1e-3 s; 4 ranks, 2 samples", "took <time>, <time>, <time>; 4 ranks, 2 samples"),
    ("got [2.5, 3s]", "got [2.5, <time>]"),
    (
        "Fatal Python error: Aborted\n\nExtension modules: numpy.x, torch._C",
        "Fatal Python error: Aborted\n\n",
    ),
    # Characters.
    ("\x1b[31mred\x1b[0m\x00\x07 text\n\tnext", "red text\n\tnext"),
    ("half \udc80 a pair", "half \\udc80 a pair"),
    (
        "Received data size doesn't match expected size. 8 vs 4",
        "Received data size doesn't match expected size. 8 vs 4",
    ),
]


@pytest.mark.parametrize(("text", "wanted"), TEXTS, ids=range(len(TEXTS)))
def test_text(text: str, wanted: str) -> None:
    assert normalise.text(text) == wanted


@pytest.mark.parametrize("text", [text for text, _ in TEXTS], ids=range(len(TEXTS)))
def test_twice_is_once(text: str) -> None:
    once = normalise.text(text)
    assert normalise.text(once) == once


def test_known_texts_go_first_and_the_longest_before_others() -> None:
    known = {"/run/case": "<case>", "/run/case/home": "<home>", "builder7": "<host>"}
    assert normalise.text("/run/case/home/x /run/case/y builder7", known) == "<home>/x <case>/y <host>"


def test_message_is_the_first_line_that_says_something() -> None:
    assert normalise.message("\n  \n RuntimeError: no\nmore") == "RuntimeError: no"
    assert normalise.message("") == ""


def test_message_is_cut() -> None:
    assert normalise.message("x" * 300) == "x" * 300
    assert normalise.message("x" * 301) == "x" * 299 + "…"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(1.5, 1.5), (math.inf, "inf"), (-math.inf, "-inf"), (math.nan, "nan"), ("a", "a"), (None, None)],
)
def test_number(value: object, wanted: object) -> None:
    assert normalise.number(value) == wanted


def test_outcome() -> None:
    rank = RankEvidence(
        rank=0,
        phase="body",
        error="RuntimeError: pid 4242",
        traceback="pid 4242",
        stacks="0x00007f3a5e7fc700",
        output="port 4242",
        mismatches=[{"label": "x", "max_abs_diff": math.inf, "differing": 1, "got": "at 0x00007f3a5e7fc700"}],
        measurements={"ratio": math.nan, "where": "port 4242"},
        notes=["pid 4242"],
    )
    attempt = Attempt(
        status=Status.WRONG,
        start_method="fork",
        message="pid 4242\nmore",
        deviation="after 3 s",
        notes=["pid 1"],
        ranks=[rank],
    )
    value = outcome(
        "a.b",
        status="wrong",
        message="pid 4242\nmore",
        notes=["pid 4242"],
        measurements={"ratio": math.nan},
        attempts=[attempt],
    )
    before = repr(value)
    assert normalise.outcome(value) == outcome(
        "a.b",
        status="wrong",
        message="pid <id>",
        notes=["pid <id>"],
        measurements={"ratio": "nan"},
        attempts=[
            Attempt(
                status=Status.WRONG,
                start_method="fork",
                message="pid <id>",
                deviation="after <time>",
                notes=["pid <id>"],
                ranks=[
                    RankEvidence(
                        rank=0,
                        phase="body",
                        error="RuntimeError: pid <id>",
                        traceback="pid <id>",
                        stacks="<address>",
                        output="port <port>",
                        mismatches=[
                            {"label": "x", "max_abs_diff": "inf", "differing": 1, "got": "at <address>"}
                        ],
                        measurements={"ratio": "nan", "where": "port <port>"},
                        notes=["pid <id>"],
                    )
                ],
            )
        ],
    )
    assert repr(value) == before
