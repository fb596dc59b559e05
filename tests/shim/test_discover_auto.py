"""Which modules the automatic rule chooses, and what opening one gives."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from ckptshim import discover


class Called(nn.Module):
    """A module with a forward; what it computes plays no part here."""

    def forward(self, x):
        return x


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


class Bottleneck(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 1)
        self.norm = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        return x + self.conv2(self.norm(self.conv1(x)).relu())


class ResNet(Called):
    """As torchvision writes it: a stem and stages that are Sequentials."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3)
        self.layer1 = nn.Sequential(Bottleneck(), Bottleneck())
        self.layer2 = nn.Sequential(Bottleneck(), Bottleneck())
        self.fc = nn.Linear(4, 2)


class Staged(Called):
    """Stages in one list, each a Sequential of bottlenecks."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
        self.stages = nn.ModuleList(
            nn.Sequential(Bottleneck(), Bottleneck()) for _ in range(2))


class Convolutions(Called):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))


class UNet(Called):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(Convolutions() for _ in range(2))
        self.middle = Convolutions()
        self.up = nn.ModuleDict({"a": Convolutions(), "b": Convolutions()})


class Giant(Called):
    def __init__(self):
        super().__init__()
        self.lines = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))


class Tiny(Called):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(8, 8)


def names(candidates):
    return [c.name for c in candidates]


def found(root, setting="auto"):
    return names(discover.find(root, setting))


def opened(root, name):
    return names(discover.open(discover.Candidate(name, root.get_submodule(name))))


def test_the_members_of_a_sequential_are_candidates():
    assert found(nn.Sequential(Block(), Block(), Block())) == ["0", "1", "2"]


def test_a_sequential_of_layers_is_one_candidate():
    model = Tiny()
    model.wide = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    assert found(model) == ["wide"]


def test_layers_in_a_stack_beside_blocks_are_left_out():
    assert found(nn.Sequential(nn.ReLU(), Giant(), Tiny())) == ["1", "2"]
    assert opened(nn.Sequential(nn.ReLU(), Giant(), Tiny()), "1") == [
        f"1.lines.{i}" for i in range(4)]


def test_a_list_of_layers_makes_their_owner_the_candidate():
    model = Called()
    model.giant = Giant()
    assert found(model) == ["giant"]


def test_lists_are_transparent_however_deep():
    model = Tiny()
    model.layers = nn.ModuleList(
        nn.ModuleList([nn.LayerNorm(8), nn.ModuleDict({"a": Block()}), Block()])
        for _ in range(2))
    assert found(model) == ["layers.0.1.a", "layers.0.2", "layers.1.1.a", "layers.1.2"]


def test_a_root_without_candidates_is_one_itself_and_opens_to_its_blocks():
    model = Tiny()
    model.first, model.second = Block(), Block()
    assert found(model) == [""]
    assert names(discover.open(discover.find(model, "auto")[0])) == ["first", "second"]


def test_a_single_block_is_a_candidate_and_opens_to_its_layers():
    assert found(Block()) == [""]
    assert names(discover.open(discover.Candidate("", Block()))) == ["up", "down"]


def test_a_single_layer_is_none():
    assert found(nn.Linear(8, 8)) == []
    assert discover.open(discover.Candidate("", nn.Linear(8, 8))) == []


def test_the_bottlenecks_of_a_resnet():
    assert found(ResNet()) == ["layer1.0", "layer1.1", "layer2.0", "layer2.1"]


def test_stages_come_first_and_open_to_their_bottlenecks():
    model = Staged()
    assert found(model) == ["stem", "stages.0", "stages.1"]
    assert discover.is_stack(model.stages[0])
    assert opened(model, "stages.1") == ["stages.1.0", "stages.1.1"]
    assert not discover.is_stack(model.stages[0][0])
    assert opened(model, "stages.1.0") == [
        f"stages.1.0.{n}" for n in ("conv1", "norm", "conv2")]


def test_layers_in_lists_make_no_stack():
    """As in diffusers: a block of four would be opened into what saves little."""
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.Module()
            self.attention.out = nn.ModuleList([nn.Linear(8, 8), nn.Dropout()])
            self.act = nn.Sequential(nn.Linear(8, 8), nn.GELU())
            self.net = nn.ModuleList([self.act, nn.Dropout(), nn.Linear(8, 8)])

        def forward(self, x):
            return x

    assert not discover.is_stack(Mixed())
    assert discover.is_stack(nn.Sequential(nn.ModuleList([Mixed(), Mixed()])))


def test_both_sides_of_a_u_net():
    assert found(UNet()) == ["down.0", "down.1", "middle.body", "up.a", "up.b"]


def test_shared_blocks_are_listed_once():
    block = Block()
    assert found(nn.Sequential(block, Block(), block)) == ["0", "1"]


def test_a_wrapper_for_data_parallelism_is_looked_through():
    class DistributedDataParallel(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *args):
            return self.module(*args)

    model = DistributedDataParallel(nn.Sequential(Block(), Block()))
    assert found(model) == ["module.0", "module.1"]
    inner = nn.Sequential(DistributedDataParallel(Block()), Block())
    assert found(inner) == ["0.module", "1"]


def test_recurrent_layers_count_as_blocks():
    model = Tiny()
    model.lstm = nn.LSTM(8, 8)
    model.wide = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    assert found(model) == ["lstm", "wide"]


def test_cells_are_reached_by_opening():
    model = Tiny()
    model.cell = nn.LSTMCell(8, 8)
    assert found(model) == [""]
    assert names(discover.open(discover.Candidate("", model))) == ["cell"]


def test_a_parametrized_layer_stays_a_layer():
    model = nn.Sequential(spectral_norm(nn.Linear(8, 8)), nn.ReLU())
    assert found(model) == [""]
    assert names(discover.open(discover.Candidate("", model))) == ["0"]


def test_a_scripted_block_is_named_with_its_reason():
    model = nn.Sequential(Block(), torch.jit.script(Block()))
    assert [(c.name, c.reason) for c in discover.find(model, "auto")] == [
        ("0", None), ("1", "scripted")]
    assert discover.open(discover.find(model, "auto")[1]) == []


@pytest.mark.parametrize("how", ["function", "method"])
def test_a_compiled_block_is_named_with_its_reason(how):
    block = Block()
    if how == "method":
        block.compile(backend="eager")
    else:
        block = torch.compile(block, backend="eager")
    found = discover.find(nn.Sequential(Block(), block), "auto")
    assert [(c.name, c.reason) for c in found] == [("0", None), ("1", "compiled")]


def test_a_model_compiled_as_a_whole_is_opaque():
    model = torch.compile(nn.Sequential(Block(), Block()), backend="eager")
    assert discover.is_opaque(model)
    assert [(c.name, c.reason) for c in discover.find(model, "auto")] == [
        ("", "compiled")]


def test_inside_a_block_with_a_forward_of_its_own_the_parts_are_candidates():
    block = Called()
    block.a, block.b = Block(), Block()
    block.forward = lambda x: block.b(block.a(x))
    found = discover.find(nn.Sequential(Block(), block), "auto")
    assert [(c.name, c.reason) for c in found] == [
        ("0", None), ("1", "instance_forward"), ("1.a", None), ("1.b", None)]


def test_a_forward_that_is_no_function_bars_the_block():
    class Odd(Block):
        forward = torch.nn.functional.relu.__get__

    model = nn.Sequential(Block(), Odd())
    assert [c.reason for c in discover.find(model, "auto")][:2] == [
        None, "instance_forward"]


def test_the_blocks_of_models_from_transformers():
    transformers = pytest.importorskip("transformers")
    small = {"vocab_size": 16}
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=2, n_embd=8, n_head=2, **small))
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=8, intermediate_size=8,
        num_attention_heads=2, **small))
    bert = transformers.BertModel(transformers.BertConfig(
        num_hidden_layers=2, hidden_size=8, intermediate_size=8,
        num_attention_heads=2, **small))
    t5 = transformers.T5ForConditionalGeneration(transformers.T5Config(
        num_layers=2, d_model=8, d_ff=8, d_kv=4, num_heads=2, **small))
    assert found(gpt2) == ["transformer.h.0", "transformer.h.1"]
    assert found(llama) == ["model.layers.0", "model.layers.1"]
    assert found(bert) == ["encoder.layer.0", "encoder.layer.1"]
    assert found(t5) == [f"{tower}.block.{i}" for tower in ("encoder", "decoder")
                         for i in range(2)]
    assert opened(gpt2, "transformer.h.0") == ["transformer.h.0.attn",
                                               "transformer.h.0.mlp"]
    assert opened(t5, "decoder.block.0") == [f"decoder.block.0.layer.{i}"
                                             for i in range(3)]
