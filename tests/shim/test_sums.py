"""Digests of large saved tensors: every bit counts, threads and places do not."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch

from ckptshim import sums, tensors
from ckptshim.frame import Frame
from fake_agent import FakeAgent

ELEMENTS = 3 * 64 * 700 + 13        # large in every dtype, with a shorter last line
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64,
          torch.int32, torch.int16, torch.uint8, torch.bool, torch.complex64]
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dense": lambda t: t,
    "rows": lambda t: t[:3 * 64 * 700].view(700, 3, 64),
    "permuted": lambda t: t[:3 * 64 * 700].view(700, 3, 64).permute(2, 0, 1),
    "gaps": lambda t: t[:3 * 64 * 700].view(350, 6, 64)[:, :4],
    "transposed with gaps": lambda t: t[:3 * 64 * 700].view(350, 6, 64)[:, :4].mT,
    "odd rows": lambda t: t[:3 * 64 * 700].view(700, 3 * 64)[:, 1:190],
    "offset": lambda t: t[1:],
    "every second": lambda t: t[::2],
}


def digester() -> sums.Digester:
    return sums.Digester(FakeAgent())  # type: ignore[arg-type]


def large(tensor: torch.Tensor) -> Any:
    """As frames do: now if possible, else together with others."""
    maker = digester()
    return maker.all([tensor], [maker.large(tensor)], 0)[0]


def filled(dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(3)
    if dtype == torch.bool:
        return torch.rand(ELEMENTS) < 0.5
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(ELEMENTS, dtype=dtype)
    return torch.randint(0, 100, (ELEMENTS,), dtype=dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_changed_bit_anywhere_changes_the_digest(
        dtype: torch.dtype, layout: str) -> None:
    tensor = LAYOUTS[layout](filled(dtype))
    before = large(tensor)
    assert large(LAYOUTS[layout](filled(dtype))) == before
    for place in (0, tensor.numel() // 2, tensor.numel() - 1):
        index = torch.unravel_index(torch.tensor(place), tensor.shape)
        was = tensor[index].clone()
        changed = ~was if dtype == torch.bool else was + 1
        tensor[index] = changed
        assert large(tensor) != before
        tensor[index] = was
    assert large(tensor) == before


@pytest.mark.parametrize("layout", [
    "dense", "rows", "permuted", "gaps", "transposed with gaps", "odd rows"])
def test_it_is_made_at_once_for_usual_layouts(layout: str) -> None:
    assert digester().large(LAYOUTS[layout](filled(torch.float32))) is not None


def test_the_number_of_threads_makes_no_difference() -> None:
    tensor = torch.randn(1 << 20)
    own = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(digester().large(tensor))
    finally:
        torch.set_num_threads(own)
    assert found[0] == found[1] == found[2]


def test_exchanged_lines_are_noticed() -> None:
    tensor = torch.randn(4096, 128)
    before = digester().large(tensor)
    tensor[[7, 9]] = tensor[[9, 7]]
    assert digester().large(tensor) != before


def test_conjugated_tensors_are_told_apart_by_their_memory() -> None:
    tensor = torch.randn(ELEMENTS, dtype=torch.complex64)
    assert large(tensor.conj()) == large(tensor)
    assert not tensors.same_form(tensor.conj(), tensor)


def test_gaps_between_the_elements_are_not_read() -> None:
    whole = torch.randn(350, 6, 64)
    before = large(whole[:, :4])
    whole[:, 4:] = float("nan")
    assert large(whole[:, :4]) == before


def test_the_sums_take_no_memory_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.randn(1 << 20)
    with torch.profiler.profile(profile_memory=True) as profile:
        assert digester().large(tensor) is not None
    assert not [e.key for e in profile.key_averages() if e.self_cpu_memory_usage > 0]


def test_a_tensor_saved_twice_is_read_once() -> None:
    reads: list[int] = []

    class Counting(sums.Digester):
        def large(self, tensor: torch.Tensor) -> Any:
            reads.append(tensor.nbytes)
            return super().large(tensor)

    frame = Frame(None, None, torch.nn.Identity())  # type: ignore[arg-type]
    pack = frame.packer(pytest.fail, Counting(FakeAgent()))  # type: ignore[arg-type]
    tensor = torch.randn(1 << 16)
    first, second = pack(tensor), pack(tensor)
    assert len(reads) == 1 and first.sum is second.sum
    del first, second
    pack(tensor)                        # nobody holds the first any more
    assert len(reads) == 2


def test_a_mode_of_the_job_sees_nothing_of_it() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (),
                               kwargs: Any = None) -> Any:
            Mode.seen += 1
            return func(*args, **(kwargs or {}))

    tensor = torch.randn(1 << 16)
    with Mode():
        assert digester().large(tensor) is None
    assert Mode.seen == 0


def on_device(values: list[torch.Tensor]) -> sums.OnDevice:
    return sums.OnDevice(values)        # a CPU stands in: the operators are the same


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_on_a_device_a_changed_element_is_found_in_its_tensor(
        dtype: torch.dtype, layout: str) -> None:
    def values() -> list[torch.Tensor]:
        return [torch.arange(5), LAYOUTS[layout](filled(dtype)), torch.ones(3)]

    before = on_device(values())
    assert not on_device(values()).differs(before, [0, 1, 2]).any()
    changed = values()
    index = torch.unravel_index(torch.tensor(changed[1].numel() // 3), changed[1].shape)
    was = changed[1][index].clone()
    changed[1][index] = ~was if dtype == torch.bool else was + 1
    found = on_device(changed).differs(before, [0, 1, 2])
    assert found.tolist() == [False, True, False]


def test_on_a_device_some_of_the_tensors_may_be_asked_for() -> None:
    values = [torch.full((4,), float(n)) for n in range(5)]
    before = on_device(values)
    assert not on_device([values[3], values[1]]).differs(before, [3, 1]).any()
    assert on_device([values[3], values[1]]).differs(before, [3, 2]).tolist() == [
        False, True]


def test_scalars_and_empty_tensors_have_digests_on_a_device() -> None:
    values = [torch.tensor(3.5), torch.empty(0), torch.ones(1, dtype=torch.bool)]
    assert not on_device(values).differs(on_device(values), [0, 1, 2]).any()
