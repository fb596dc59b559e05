"""What training jobs do, each in torch's own code, on an unnamed library call
ending the job (CKPT_PHANTOM_STRICT)."""

GPT = """
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.norms[0](x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norms[1](x))

class GPT(nn.Module):
    def __init__(self, checkpointed=False, width=256, vocabulary=5000, blocks=4):
        super().__init__()
        self.checkpointed = checkpointed
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([Block(width, 8) for _ in range(blocks)])
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed \\
                else block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())

def peaks(steps=3, half=False, **options):
    torch.cuda.empty_cache()
    model = GPT(**options).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(5000, (8, 256), device="cuda")
    base, found = torch.cuda.memory_allocated(), []
    for _ in range(steps):
        torch.cuda.reset_peak_memory_stats()
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            loss = model(tokens)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        found.append(torch.cuda.max_memory_allocated() - base)
    return found
"""


def test_the_peaks_of_a_model_are_torchs_own(phantom):
    """They repeat; checkpoints and half precision lower them; state raises them."""
    plain, again, checkpointed, half, weights = phantom.run(GPT + """
parameters = sum(p.numel() * 4 for p in GPT().parameters())
peaks(steps=1)      # torch's own workspaces for cuBLAS are made here
result = [peaks(), peaks(), peaks(checkpointed=True), peaks(half=True), parameters]
""", CKPT_PHANTOM_STRICT="1").result
    assert plain[1] == plain[2] and again[1] == plain[1]
    # Adam's two moments, which the first step has made:
    assert plain[1] - plain[0] > 1.8 * weights
    assert checkpointed[1] < plain[1]
    assert half[1] < plain[1]


def test_every_attention_runs_forward_and_backward(phantom):
    """And only the plain one saves more than its inputs hold."""
    assert phantom.run("""
        import torch.nn.functional as F
        from torch.nn.attention import SDPBackend, sdpa_kernel
        result = []
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION,
                        SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH):
            q, k, v = (torch.randn(2, 8, 128, 64, device="cuda",
                                   dtype=torch.bfloat16, requires_grad=True)
                       for _ in range(3))
            before = torch.cuda.memory_allocated()
            with sdpa_kernel(backend):
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            saved = torch.cuda.memory_allocated() - before - y.nbytes
            y.sum().backward()
            result.append([list(q.grad.shape), saved < q.nbytes])
        """, CKPT_PHANTOM_STRICT="1").result == [[[2, 8, 128, 64], True]] * 3 + [
            [[2, 8, 128, 64], False]]


def test_every_form_of_adamw_has_two_moments_for_a_parameter(phantom):
    moments = phantom.run("""
        result = []
        for options in (dict(fused=True), dict(foreach=True), dict(foreach=False),
                        dict(capturable=True), dict(amsgrad=True)):
            p = [torch.nn.Parameter(torch.ones(1 << 18, device="cuda"))
                 for _ in range(10)]
            for x in p:
                x.grad = torch.ones_like(x)
            optimizer, before = torch.optim.AdamW(p, **options), \\
                torch.cuda.memory_allocated()
            optimizer.step()
            optimizer.step()
            result.append((torch.cuda.memory_allocated() - before) >> 20)
            del p, optimizer, x
        """, CKPT_PHANTOM_STRICT="1").result
    assert moments == [20, 20, 20, 20, 30]


def test_a_scaler_steps(phantom):
    """It finds no infinity: a flag that no kernel set reads as zero."""
    assert phantom.run("""
        scaler, model = torch.amp.GradScaler("cuda"), torch.nn.Linear(4, 4).cuda()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        with torch.autocast("cuda", torch.float16):
            loss = model(torch.ones(2, 4, device="cuda")).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        result = len(optimizer.state)
        """, CKPT_PHANTOM_STRICT="1").result == 2


def test_layers_that_ask_libraries_for_sizes(phantom):
    assert phantom.run("""
        import torch.nn as nn
        x = torch.randn(2, 3, 32, 32, device="cuda")
        for memory_format in (torch.contiguous_format, torch.channels_last):
            cnn = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
                                nn.ConvTranspose2d(8, 4, 3), nn.AdaptiveAvgPool2d(1)
                                ).cuda().to(memory_format=memory_format)
            cnn(x.to(memory_format=memory_format)).sum().backward()
        for cell in (nn.LSTM, nn.GRU, nn.RNN):
            for options in (dict(), dict(bidirectional=True, num_layers=3),
                            dict(bias=False, num_layers=2)):
                rnn = cell(8, 16, **options).cuda()
                y = torch.ones(4, 2, 8, device="cuda", requires_grad=True)
                rnn(y)[0].sum().backward()
                rnn.flatten_parameters()
        projected = nn.LSTM(8, 16, proj_size=4, num_layers=2).cuda()
        shape = projected(torch.ones(4, 2, 8, device="cuda"))[0].shape
        a = torch.eye(8, device="cuda").expand(3, 8, 8).contiguous()
        torch.fft.rfft2(x).abs().sum()
        for solve in (torch.linalg.inv, torch.linalg.cholesky, torch.linalg.qr,
                      torch.linalg.eigh, torch.linalg.svd, torch.linalg.lu_factor,
                      torch.linalg.det):
            solve(a)
        scale = torch.ones((), device="cuda")
        half = torch.ones(32, 32, device="cuda").to(torch.float8_e4m3fn)
        torch._scaled_mm(half, half.t(), scale, scale, out_dtype=torch.bfloat16)
        (torch.eye(8, device="cuda").to_sparse_csr() @ torch.ones(8, 2, device="cuda"))
        result = list(shape)
        """, CKPT_PHANTOM_STRICT="1").result == [4, 2, 4]


def test_tensors_are_saved_and_loaded(phantom):
    assert phantom.run("""
        import io
        file = io.BytesIO()
        torch.save({"x": torch.arange(5).cuda()}, file)
        file.seek(0)
        x = torch.load(file)["x"]
        result = [str(x.device), x.cpu().tolist()]
        """).result == ["cuda:0", [0, 1, 2, 3, 4]]
