"""What a signal handler of the job raises while our code runs is the job's."""

import signal
import sys

import pytest
import torch

from ckptshim import interrupts, mute, probe, watch


class Late(Exception):
    pass


def function(number, frame):
    raise Late


class Handler:
    def method(self, number, frame):
        raise Late

    def __call__(self, number, frame):
        self.method(number, frame)


def deeper(number, frame):
    function(number, frame)


@pytest.fixture(params=[function, deeper, Handler().method, Handler()],
                ids=["function", "deeper", "method", "callable"])
def handler(request):
    before = signal.signal(signal.SIGUSR1, request.param)
    yield request.param
    signal.signal(signal.SIGUSR1, before)


def strike(*_):
    signal.raise_signal(signal.SIGUSR1)


def caught(function, *arguments):
    with pytest.raises(Exception) as info:      # noqa: B017
        function(*arguments)
    return info.value


def test_what_a_handler_raised_is_told_from_an_error_of_ours(handler):
    assert interrupts.is_the_jobs(caught(strike))
    assert not interrupts.is_the_jobs(caught({}.pop, "missing"))
    assert not interrupts.is_the_jobs(ValueError("never raised"))


def test_an_error_of_a_function_that_handles_nothing_is_not_taken_for_one():
    assert not interrupts.is_the_jobs(caught(function, 0, None))


@pytest.mark.parametrize("when", [0, 1], ids=["at its beginning", "at its end"])
def test_a_look_lets_it_pass(monkeypatch, handler, when):
    module = torch.nn.Linear(2, 2)
    calls = [0]

    def numbers():
        calls[0] += 1
        if calls[0] == when + 1:
            strike()
        return ()
    monkeypatch.setattr(probe, "_sequence_numbers", numbers)
    x = torch.ones(2)
    with pytest.raises(Late):
        with probe.Look(module, type(module).forward, (x,), {}):
            module(x)
    assert sys.getprofile() is sys.gettrace() is None


def test_an_interrupt_leaves_no_tracer_behind(monkeypatch):
    def start(self):
        begin(self)
        raise KeyboardInterrupt
    begin = probe.Tracer.start
    monkeypatch.setattr(probe.Tracer, "start", start)
    module = torch.nn.Linear(2, 2)
    with pytest.raises(KeyboardInterrupt):
        with probe.Look(module, type(module).forward, (torch.ones(2),), {}):
            pass
    assert sys.getprofile() is sys.gettrace() is None


def test_a_comparison_lets_it_pass(handler):
    seen = watch.Watch()
    seen.record(strike, None, None, watch.ARGUMENT, "here")
    with pytest.raises(Late):
        list(seen.changes())


def test_a_stream_that_an_interrupt_left_muted_is_heard_again(capsys):
    held = mute.mute()
    held.__enter__()
    print("not this")
    del held                # as when its end was never reached
    print("this")
    assert capsys.readouterr().out == "this\n"
