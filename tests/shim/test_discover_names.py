"""Which modules ``re:`` and ``class:`` choose."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from ckptshim import discover, roots
from test_discover_auto import Block, Bottleneck, Staged, found


def test_a_regular_expression_is_searched_in_dotted_names():
    model = Staged()
    assert found(model, r"re:stages\.\d$") == ["stages.0", "stages.1"]
    assert found(model, "re:^stem$") == ["stem"]
    assert found(model, "re:^nothing$") == []


def test_lists_are_never_called_and_so_never_chosen():
    assert found(Staged(), "re:^stages") == ["stages.0", "stages.1"]


def test_of_modules_inside_each_other_the_outermost_is_chosen():
    assert found(Staged(), r"re:stages\.1") == ["stages.1"]


def test_the_root_is_chosen_only_alone():
    assert found(nn.Sequential(Block(), Block()), "re:") == ["0", "1"]
    assert found(nn.Linear(8, 8), "re:") == [""]


def test_classes_are_chosen_by_name():
    model = nn.Sequential(Block(), Bottleneck(), nn.Linear(8, 8))
    assert found(model, "class:Bottleneck") == ["1"]
    assert found(model, "class:Block, Bottleneck") == ["0", "1"]


def test_a_class_that_torch_made_from_another_keeps_its_name():
    model = nn.Sequential(weight_norm(nn.Linear(8, 8)), nn.ReLU())
    assert found(model, "class:Linear") == ["0"]


def test_inside_a_block_that_cannot_be_replaced_the_search_goes_on():
    block = Block()
    block.forward = lambda x: x
    found = discover.find(nn.Sequential(block), "re:0")
    assert [(c.name, c.reason) for c in found] == [
        ("0", "instance_forward"), ("0.up", None), ("0.down", None)]


def test_a_scripted_block_that_is_asked_for_is_named_with_its_reason():
    model = nn.Sequential(torch.jit.script(Block()))
    assert [(c.name, c.reason) for c in discover.find(model, "re:^0")] == [
        ("0", "scripted")]


@pytest.mark.parametrize("setting, said", [
    ("re:(", "'(' is not a regular expression: "),
    ("class:", "'class:' is not one of auto, nvtx, re:REGEX, class:NAME[,NAME]"),
    ("blocks", "'blocks' is not one of auto"),
    ("nvtx:", "'nvtx:' is not one of auto"),
])
def test_a_setting_that_cannot_be_read_is_named(setting, said):
    with pytest.raises(ValueError) as error:
        discover.check(setting)
    assert str(error.value).startswith("CKPT_BLOCKS: ") and said in str(error.value)


def test_a_part_that_is_called_alone_has_its_name_in_what_holds_it():
    model = nn.ModuleDict({"encoder": nn.Sequential(nn.Linear(2, 2), nn.Tanh()),
                           "decoder": nn.ModuleList([nn.Linear(2, 2)])})
    found = discover.find(model["encoder"], "re:^encoder[.]1$")
    assert [(c.name, c.module) for c in found] == [("encoder.1", model["encoder"][1])]
    found = discover.find(model["decoder"][0], "re:^decoder[.]0$")
    assert [(c.name, c.module) for c in found] == [("decoder.0", model["decoder"][0])]
    assert discover.find(model["encoder"], "re:^decoder") == []
    # What matches a name that the root itself gives keeps that one.
    assert [c.name for c in discover.find(model["encoder"], "re:0$")] == ["0"]
    assert discover.find(nn.Linear(2, 2), "re:^x$") == []


def test_a_module_knows_whose_call_it_is_inside_of():
    class Inner(nn.Module):
        def forward(self, x):
            callers.append(roots._caller(self))
            return x

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x) + self.inner.forward(x)

    callers, outer, x = [], Outer(), torch.ones(2)
    outer(x)
    assert callers == [outer, outer]
    outer.inner(x)
    outer.forward(x)
    assert callers[2:] == [None, None, None]
