"""A patched function is the same object and reads the same."""

from __future__ import annotations

import copy
import functools
import inspect
import marshal
import pickle
import subprocess
import sys
import types
import typing
from typing import Any, Iterator

import pytest
import torch
from torch import nn

from ckptshim.patch import GATE, Patches, own_code


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        """Scale and project."""
        return self.up(x) * scale


class Child(Base):
    def forward(self, x: torch.Tensor, *more: Any, bias: Any = None,
                **options: Any) -> torch.Tensor:
        y = super().forward(x, *more)
        return y if bias is None else y + bias


class Odd(nn.Module):
    def forward(self, gate: Any, /, gate_: Any = 1, *, _gate: Any = 3) -> Any:
        return gate, gate_, _gate


@pytest.fixture
def patches() -> Iterator[Patches]:
    made = Patches(torch.compiler.is_compiling)
    yield made
    made.undo()


class Calls:
    def __init__(self) -> None:
        self.list: list[tuple[Any, Any]] = []

    def __call__(self, original: Any, module: Any, args: Any, kwargs: Any) -> Any:
        self.list.append((args, kwargs))
        return original(module, *args, **kwargs)


def describe(function: Any) -> list[Any]:
    return [inspect.signature(function), inspect.getsource(function),
            typing.get_type_hints(function), function.__name__, function.__doc__,
            function.__qualname__, function.__module__, function.__defaults__,
            function.__kwdefaults__, hasattr(function, "__wrapped__"),
            function.__code__.co_firstlineno, sorted(vars(function))]


@pytest.mark.parametrize("cls", [Base, Child, Odd])
def test_a_tracer_meets_no_line_of_the_file_but_its_own(
        cls: Any, patches: Patches) -> None:
    lines = {line for *_, line in own_code(cls.forward.__code__).co_lines()}
    assert patches.replace(cls, "forward", Calls())
    code = cls.forward.__code__
    assert {line for *_, line in code.co_lines()} - {None} == {code.co_firstlineno}
    assert {line for *_, line in own_code(code).co_lines()} == lines


@pytest.mark.parametrize("cls", [Base, Child, Odd])
def test_a_patched_function_is_the_same_object_and_reads_the_same(
        cls: type, patches: Patches) -> None:
    function, before = cls.forward, describe(cls.forward)  # type: ignore[attr-defined]
    assert patches.replace(cls, "forward", Calls())
    assert cls.__dict__["forward"] is function and describe(function) == before


def test_arguments_arrive_as_they_were_given(patches: Patches) -> None:
    calls, x = Calls(), torch.randn(2, 4)
    child = Child()
    plain = child(x, 3.0, bias=x, other=1)
    patches.replace(Child, "forward", calls)
    assert torch.equal(child(x, 3.0, bias=x, other=1), plain)
    args, kwargs = calls.list[0]
    assert args[1:] == (3.0,) and kwargs["other"] == 1 and kwargs["bias"] is x
    odd = Calls()
    patches.replace(Odd, "forward", odd)
    assert Odd()(7, _gate=9) == (7, 1, 9)
    assert odd.list == [((7, 1), {"_gate": 9})]


def test_a_decorated_forward_may_take_nothing_but_stars(patches: Patches) -> None:
    class Decorated(Base):
        @functools.wraps(Base.forward)
        def forward(*args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
            return Base.forward(*args, **kwargs)

    calls, x = Calls(), torch.randn(2, 4)
    module = Decorated()
    plain = module(x, scale=3.0)
    assert patches.replace(Decorated, "forward", calls)
    assert torch.equal(module(x, scale=3.0), plain)
    assert calls.list == [((x,), {"scale": 3.0})]


def test_a_wrong_call_raises_the_same_error(patches: Patches) -> None:
    patches.replace(Base, "forward", Calls())
    with pytest.raises(TypeError, match=r"forward\(\) missing 1 required positional"):
        Base()()


def test_a_class_that_compares_its_forward_by_identity_still_finds_itself(
        patches: Patches) -> None:
    class Layer(nn.Module):
        def __init_subclass__(cls) -> None:
            inner = cls.forward

            def forward(self: Any, x: Any) -> Any:
                return x + 1 if type(self).forward is forward else inner(self, x)
            cls.forward = forward  # type: ignore[method-assign]

    class Block(Layer):
        def forward(self, x: Any) -> Any:
            return x

    assert patches.replace(Block, "forward", Calls())
    assert Block()(1) == 2


def test_undo_leaves_nothing_behind(patches: Patches) -> None:
    code, calls = Base.forward.__code__, Calls()
    patches.replace(Base, "forward", calls)
    assert Base.forward.__code__ is not code
    patches.undo()
    Base()(torch.randn(2, 4))
    assert Base.forward.__code__ is code and not calls.list


def test_a_function_is_patched_once(patches: Patches) -> None:
    first, second = Calls(), Calls()
    patches.replace(Base, "forward", first)
    patches.replace(Base, "forward", second)
    Base()(torch.randn(2, 4))
    assert len(first.list) == 1 and not second.list


@pytest.mark.parametrize("forward", [len, staticmethod(len), None, 3])
def test_what_is_no_plain_function_is_refused(forward: Any, patches: Patches) -> None:
    cls = type("Strange", (nn.Module,), {"forward": forward})
    assert not patches.replace(cls, "forward", Calls())


def test_generators_are_refused(patches: Patches) -> None:
    class Yields(nn.Module):
        def forward(self, x: Any) -> Any:
            yield x

    assert not patches.replace(Yields, "forward", Calls())


def test_scripting_and_tracing_see_the_original(patches: Patches) -> None:
    module, x = Base(), torch.randn(2, 4)
    plain = module(x)
    patches.replace(Base, "forward", Calls())
    assert torch.equal(torch.jit.script(module)(x), plain)
    assert torch.equal(torch.jit.trace(module, x)(x), plain)


def test_compilation_breaks_no_graph_and_is_done_once(patches: Patches) -> None:
    from torch._dynamo.testing import CompileCounter
    module, x = Child(), torch.randn(2, 4)
    plain, calls = module(x, bias=x), Calls()
    patches.replace(Child, "forward", calls)
    counter = CompileCounter()
    compiled = torch.compile(module, backend=counter, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(x, bias=x), plain)
    assert counter.frame_count == 1 and not calls.list


def test_copies_and_pickles_hold_nothing_foreign(patches: Patches) -> None:
    module = Base()
    before = pickle.dumps(module)
    patches.replace(Base, "forward", Calls())
    assert pickle.dumps(module) == before
    assert b"ckpt" not in pickle.dumps(copy.deepcopy(module))


def copy_of(function: Any) -> Any:
    """Another function with the same code, as a pickle by value makes one."""
    made = types.FunctionType(function.__code__, function.__globals__,
                              function.__name__, function.__defaults__,
                              function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def test_code_that_left_for_another_process_runs_as_written(
        patches: Patches, monkeypatch: pytest.MonkeyPatch) -> None:
    x, modules = torch.randn(2, 4), (Base(), Child(), Odd())
    calls = [Calls() for _ in modules]
    plain = [modules[0](x, 3.0), modules[1](x, 3.0, bias=x, other=1), modules[2](7)]
    for module, run in zip(modules, calls):
        patches.replace(type(module), "forward", run)
    # In there the module of that name is another one, or there is none.
    for gate in (types.ModuleType(GATE), None):
        if gate is not None:
            gate.token = "of another process"  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, GATE, gate)  # type: ignore[arg-type]
        there = [copy_of(type(module).forward) for module in modules]
        assert torch.equal(there[0](modules[0], x, 3.0), plain[0])
        assert torch.equal(there[1](modules[1], x, 3.0, bias=x, other=1), plain[1])
        assert there[2](modules[2], 7) == plain[2]
    assert not any(run.list for run in calls)


def test_code_by_value_loads_and_runs_where_there_is_no_agent(
        patches: Patches) -> None:
    patches.replace(Odd, "forward", Calls())
    code = marshal.dumps(Odd.forward.__code__)
    done = subprocess.run(
        [sys.executable, "-c", f"""if True:
        import marshal, types
        f = types.FunctionType(marshal.loads({code!r}), dict(globals()), "f", (1,))
        f.__kwdefaults__ = {{"_gate": 3}}
        print(f(None, 7, _gate=9))"""], capture_output=True, text=True)
    assert done.stdout == "(7, 1, 9)\n", done.stderr


def test_code_of_another_process_is_patched_like_the_original(
        patches: Patches) -> None:
    first = Base.forward.__code__
    patches.replace(Base, "forward", Calls())
    loaded = type("Loaded", (Base,), {"forward": copy_of(Base.forward)})
    assert own_code(loaded.forward.__code__) is first
    other, calls, x = Patches(torch.compiler.is_compiling), Calls(), torch.randn(2, 4)
    try:
        other.replace(loaded, "forward", calls)
        module = loaded()
        assert torch.equal(module(x), module.up(x) * 2.0) and len(calls.list) == 1
    finally:
        other.undo()
